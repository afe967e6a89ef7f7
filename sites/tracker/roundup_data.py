"""Loads, reads and signs into a Roundup tracker through Roundup's own classes.

Run by the tracker's server as `roundup_data.py TRACKER_HOME`. Each line on standard input is a JSON request
`{"do": ..., ...}`, each line on standard output its answer: `{"ok": ...}`, or `{"kind", "message", "hint"}`.
The database is opened anew for each request, so that it may be replaced between two.
"""

import json
import re
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).resolve().parent / "vendor"))

import roundup.instance  # noqa: E402
from roundup import password  # noqa: E402
from roundup.cgi.client import Session  # noqa: E402
from roundup.date import Date  # noqa: E402
from roundup.exceptions import Reject  # noqa: E402

USERNAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
USER_FIELDS = {"username", "password", "roles"}
ISSUE_FIELDS = {"title", "status", "assignedto", "priority", "creator", "messages"}
SELECTABLE = {
    "users": {"username", "roles"},
    "issues": {"id", "title", "status", "assignedto", "priority", "creator", "title_contains"},
}
# One message of a refused load says this many problems: the rest are mostly the same mistake.
MAX_PROBLEMS = 10


class Refused(Exception):
    """What the caller sent can't be done."""

    def __init__(self, kind, message, hint=""):
        super().__init__(message)
        self.answer = {"kind": kind, "message": message, "hint": hint}


def load(db, request):
    """Adds users and issues: all of them, or none."""
    data = request["data"]
    problems = Problems(db)
    users, issues = problems.of(data)
    if problems.found:
        shown = "; ".join(problems.found[:MAX_PROBLEMS])
        more = len(problems.found) - MAX_PROBLEMS
        raise Refused("bad_request", shown + (f"; and {more} more" if more > 0 else ""),
                      "nothing was loaded; the shape is {users: [{username, password, roles?}], issues: [{title, "
                      "status?, assignedto?, priority?, creator?, messages?: [text]}]}")
    begin(db)
    for at, user in enumerate(users):
        with_place(f"users[{at}]", lambda user=user: db.user.create(
            username=user["username"], password=password.Password(user["password"], config=db.config),
            roles=user.get("roles", "User"), address=f"{user['username']}@{db.config.MAIL_DOMAIN}"))
    for at, issue in enumerate(issues):
        with_place(f"issues[{at}]", lambda issue=issue: create_issue(db, issue))
    db.commit()
    return {"users": len(users), "issues": len(issues)}


def begin(db):
    """Takes the write lock until the load is committed or rolled back.

    Roundup's own `newid` commits whenever it hands out an id, which would leave half a load behind. Nobody else can take
    an id while the lock is held, so here the next one is read and raised within the same transaction.
    """
    db.conn.isolation_level = None
    db.sql("begin immediate")

    def newid(class_name):
        db.sql("select num from ids where name=?", (class_name,))
        [number] = db.cursor.fetchone()
        db.sql("update ids set num=num+1 where name=?", (class_name,))
        return str(int(number))

    db.newid = newid


def with_place(place, create):
    """Says which item Roundup itself refuses."""
    try:
        create()
    except (ValueError, Reject) as refusal:
        raise Refused("bad_request", f"{place}: {refusal}", "nothing was loaded") from refusal


def create_issue(db, issue):
    # Roundup writes the current user down as the creator.
    db.setCurrentUser(issue.get("creator", "admin"))
    messages = [
        db.msg.create(content=text, author=db.getuid(), date=Date("."), recipients=[])
        for text in issue.get("messages", [])
    ]
    fields = {
        "title": issue["title"],
        "status": db.status.lookup(issue.get("status", "unread")),
        "priority": db.priority.lookup(issue.get("priority", "bug")),
        "messages": messages,
    }
    if issue.get("assignedto") is not None:
        fields["assignedto"] = db.user.lookup(issue["assignedto"])
    db.issue.create(**fields)
    db.setCurrentUser("admin")


class Problems:
    """Everything that is wrong with a load, before any of it is written."""

    def __init__(self, db):
        self.found = []
        self.users = names(db, "user", "username")
        self.statuses = names(db, "status", "name")
        self.priorities = names(db, "priority", "name")
        # Roundup keeps them in small letters and accepts any.
        self.roles = [role.capitalize() for role in db.security.role]

    def of(self, data):
        data = self.object("the data", data, {"users", "issues"})
        users = self.list("users", data.get("users", []))
        issues = self.list("issues", data.get("issues", []))
        for at, user in enumerate(users):
            self.user(f"users[{at}]", user)
        for at, issue in enumerate(issues):
            self.issue(f"issues[{at}]", issue)
        return users, issues

    def user(self, place, user):
        user = self.object(place, user, USER_FIELDS)
        name = self.text(place, user, "username", required=True)
        self.text(place, user, "password", required=True)
        if name is not None and not USERNAME.fullmatch(name):
            self.add(f"{place}.username: `{name}` may have letters, digits, dots, hyphens and underscores only")
        elif name is not None and name in self.users:
            self.add(f"{place}.username: `{name}` is taken")
        elif name is not None:
            self.users.append(name)
        for role in (self.text(place, user, "roles") or "").split(","):
            if role.strip() and role.strip().capitalize() not in self.roles:
                self.add(f"{place}.roles: there is no `{role.strip()}`; there are {listing(self.roles)}")

    def issue(self, place, issue):
        issue = self.object(place, issue, ISSUE_FIELDS)
        self.text(place, issue, "title", required=True)
        self.one_of(place, issue, "status", self.statuses)
        self.one_of(place, issue, "priority", self.priorities)
        self.one_of(place, issue, "assignedto", self.users)
        self.one_of(place, issue, "creator", self.users)
        for at, text in enumerate(self.list(f"{place}.messages", issue.get("messages", []))):
            if not isinstance(text, str) or not text.strip():
                self.add(f"{place}.messages[{at}] must be a text")

    def one_of(self, place, item, field, accepted):
        value = self.text(place, item, field, nullable=field == "assignedto")
        if value is not None and value not in accepted:
            self.add(f"{place}.{field}: there is no `{value}`; there are {listing(accepted)}")

    def text(self, place, item, field, required=False, nullable=False):
        value = item.get(field)
        if field not in item or (nullable and value is None):
            if required:
                self.add(f"{place}.{field} is missing")
            return None
        if not isinstance(value, str) or not value.strip():
            self.add(f"{place}.{field} must be a text that isn't empty")
            return None
        return value

    def object(self, place, value, fields):
        if not isinstance(value, dict):
            self.add(f"{place} must be an object")
            return {}
        for unknown in sorted(value.keys() - fields):
            self.add(f"{place} has the unknown `{unknown}`; accepted are {listing(sorted(fields))}")
        return value

    def list(self, place, value):
        if isinstance(value, list):
            return value
        self.add(f"{place} must be a list")
        return []

    def add(self, problem):
        self.found.append(problem)


def get(db, request):
    """Everything, or what the selector asks for: `{"issues": {"creator": "mara", "title_contains": "Order"}}`."""
    selector = request.get("selector")
    if selector is None:
        selector = {"users": {}, "issues": {}}
    check_selector(selector)
    readers = {"users": users_of, "issues": issues_of}
    return {name: [item for item in readers[name](db) if matches(item, wanted)] for name, wanted in selector.items()}


def check_selector(selector):
    hint = "a selector names users, issues or both, each with the fields to match: {\"issues\": {\"status\": \"unread\"}}"
    if not isinstance(selector, dict):
        raise Refused("bad_request", "the selector must be an object", hint)
    for name, wanted in selector.items():
        if name not in SELECTABLE:
            raise Refused("bad_request", f"the selector names `{name}`", hint)
        if not isinstance(wanted, dict):
            raise Refused("bad_request", f"the selector's `{name}` must be an object", hint)
        for field, value in wanted.items():
            if field not in SELECTABLE[name]:
                raise Refused("bad_request", f"{name} can't be selected by `{field}`",
                              f"accepted are {listing(sorted(SELECTABLE[name]))}")
            if field == "title_contains" and not isinstance(value, str):
                raise Refused("bad_request", "`title_contains` must be a text", hint)


def matches(item, wanted):
    return all(
        value in item["title"] if field == "title_contains" else item[field] == value
        for field, value in wanted.items()
    )


def users_of(db):
    return [
        {"username": db.user.get(id, "username"), "roles": db.user.get(id, "roles")} for id in ids(db.user)
    ]


def issues_of(db):
    return [
        {
            "id": int(id),
            "title": db.issue.get(id, "title"),
            "status": name_of(db.status, db.issue.get(id, "status"), "name"),
            "priority": name_of(db.priority, db.issue.get(id, "priority"), "name"),
            "assignedto": name_of(db.user, db.issue.get(id, "assignedto"), "username"),
            "creator": name_of(db.user, db.issue.get(id, "creator"), "username"),
            "messages": [text_of(db, message) for message in sorted(db.issue.get(id, "messages"), key=int)],
        }
        for id in ids(db.issue)
    ]


def session(db, request):
    """Signs a user in the way Roundup does after it has checked a password."""
    username = request.get("user") or "admin"
    try:
        if username == "anonymous":
            raise KeyError(username)
        db.user.lookup(username)
    except KeyError:
        raise Refused("not_found", f"the tracker has no user `{username}`",
                      "load the user first; without one, `admin` is signed in") from None
    cookies = {}
    visitor = SimpleNamespace(
        db=db, instance=SimpleNamespace(config=db.config), env={}, session=None,
        secure=db.config.TRACKER_WEB.startswith("https"),
        add_cookie=lambda name, value, expire=None: cookies.update({name: value}))
    Session(visitor).set(user=username)
    [(name, value)] = cookies.items()
    return {"name": name, "value": value, "user": username}


def names(db, class_name, field):
    of_class = db.getclass(class_name)
    return [of_class.get(id, field) for id in ids(of_class)]


def text_of(db, message):
    # A form sends its line ends as CR LF.
    return db.msg.get(message, "content").replace("\r\n", "\n")


def name_of(of_class, id, field):
    return None if id is None else of_class.get(id, field)


def ids(of_class):
    return sorted(of_class.list(), key=int)


def listing(values):
    return ", ".join(f"`{value}`" for value in values)


def answer(tracker, line):
    request = json.loads(line)
    db = tracker.open("admin")
    try:
        return {"ok": {"load": load, "get": get, "session": session}[request["do"]](db, request)}
    except Refused as refused:
        rollback(db)
        return refused.answer
    except Exception as failure:
        rollback(db)
        traceback.print_exc()
        return {"kind": "internal", "message": f"roundup failed: {type(failure).__name__}: {failure}", "hint": ""}
    finally:
        db.close()


def rollback(db):
    try:
        db.rollback()
    except OSError:
        # After the database, Roundup takes back files of messages, also one that a full disk kept it from making.
        traceback.print_exc()


def main():
    # Whatever Roundup prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    tracker = roundup.instance.open(sys.argv[1], optimize=1)
    for line in sys.stdin:
        answers.write(json.dumps(answer(tracker, line)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
