"""Builds the tracker's frontend: Roundup in `vendor/`, and an empty tracker in `tracker/`.

Run by `agent-env website put`, in a scratch copy of this folder. At deploy the result is the read-only `/site`.
"""

import compileall
import importlib.util
import os
import py_compile
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENDOR = HERE / "vendor"
TRACKER = HERE / "tracker"

SETTINGS = {
    "tracker_name": "Office tracker",
    "tracker_web": "https://tracker.test/issues/",
    "tracker_email": "issues",
    "mail_domain": "tracker.test",
    # Mail is appended to this file instead of being sent.
    "mail_debug": "/dev/null",
    # An address that is new to the tracker needs no mail to confirm it.
    "instant_registration": "yes",
    "timezone": "UTC",
    # The words on its pages don't depend on a browser's languages.
    "tracker_language": "en",
    "web_use_browser_language": "no",
    # Said outright, so that a search engine that happens to be on the host isn't picked.
    "indexer": "native",
    # The fewest that Roundup accepts. These passwords protect made-up people; a load of 50 takes 8 s otherwise.
    "password_pbkdf2_default_rounds": "1000",
}


def main():
    if importlib.util.find_spec("pip") is None:
        sys.exit(f"{sys.executable} has no pip: apt-get install python3-pip")
    shutil.rmtree(VENDOR, ignore_errors=True)
    shutil.rmtree(TRACKER, ignore_errors=True)
    run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--root-user-action=ignore", "--no-compile",
        "--no-deps", "--require-hashes", "--requirement", "requirements.txt", "--target", "vendor")
    # The site is read-only when it runs and its files' times are not kept, so a start never checks them.
    compileall.compile_dir(VENDOR / "roundup", quiet=1, force=True, stripdir=str(HERE), prependdir="/site",
                           invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    settings = ",".join(f"{key}={value}" for key, value in SETTINGS.items())
    admin("install", "classic", "sqlite", settings)
    # Nobody learns this password: `session` signs the administrator in without it.
    admin("initialise", secrets.token_urlsafe(24))
    # Roundup makes these two on first use, and two first requests at once would trip over each other.
    run("-S", "-c", "import sys, roundup.instance; db = roundup.instance.open(sys.argv[1]).open('admin'); "
              "db.getSessionManager(); db.getOTKManager(); db.close()", str(TRACKER))
    shutil.rmtree(TRACKER / "__pycache__", ignore_errors=True)


def admin(*words):
    run("-S", "-m", "roundup.scripts.roundup_admin", "-i", str(TRACKER), *words)


def run(*words):
    environment = {**os.environ, "PYTHONPATH": str(VENDOR), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, *words], cwd=HERE, env=environment, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}\n{' '.join(words[:4])} ended with {done.returncode}")


if __name__ == "__main__":
    main()
