//! The proxies, as processes, and how each is reached.

use std::{
    env, fs,
    net::{SocketAddr, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use agentenv_tests::eventually;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustix::process::{Pid, Signal, kill_process_group};

use super::{LIVE, SITE, UPSTREAM, ours, splice};
use crate::say::say;

/// Programs and their packages.
const PROGRAMS: [(&str, &str); 4] =
    [("haproxy", "haproxy"), ("nginx", "nginx-light"), ("tinyproxy", "tinyproxy"), ("squid", "squid")];
/// How long one may take to listen: mitmproxy makes an authority.
const WAIT: Duration = Duration::from_secs(60);
/// Clock ticks a second, of `/proc`.
const TICKS: f64 = 100.0;
/// haproxy, haproxy with splicing, tinyproxy, squid, nginx over TLS, nginx, mitmproxy.
const PORTS: [u16; 7] = [3011, 3012, 3013, 3014, 3015, 3016, 3017];

/// A proxy under one load.
pub struct Entry {
    /// How it is called in the table.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// Whether it is asked for a tunnel, and to what.
    pub connect: Option<String>,
    /// Who certifies it.
    pub authority: Option<PathBuf>,
    group: u32,
}

impl Entry {
    /// Seconds of processor that its processes have taken.
    pub fn cpu(&self) -> f64 {
        let stats = fs::read_dir("/proc").into_iter().flatten().flatten();
        let stats = stats.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
        let ticks = |stat: String| {
            let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
            let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
            // The process group, then what it took itself and in the kernel.
            (number(2)? == f64::from(self.group)).then_some(number(11)? + number(12)?)
        };
        stats.filter_map(ticks).sum::<f64>() / TICKS
    }
}

/// All of them; they end with it.
pub struct Peers {
    /// Tunnels to the live host; ours is the first.
    pub tunnels: Vec<Entry>,
    /// The site over TLS.
    pub tls: Vec<Entry>,
    /// The site below `/website/shop/`.
    pub gateway: Vec<Entry>,
    children: Vec<Child>,
}

/// The packages of the programs that are not there.
pub fn missing() -> Vec<&'static str> {
    PROGRAMS.into_iter().filter(|(program, _)| find(program).is_none()).map(|(_, package)| package).collect()
}

/// People's `PATH` may lack the second one.
fn find(program: &str) -> Option<PathBuf> {
    ["/usr/bin", "/usr/sbin"].into_iter().map(|folder| Path::new(folder).join(program)).find(|path| path.exists())
}

fn installed(program: &str) -> Command {
    mortal(find(program).expect("it was looked for"))
}

/// Ends with this program, also where that is interrupted; all but squid, which takes another user and so loses the signal.
fn mortal(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "TERM", "--"]).arg(program);
    command
}

fn local(port: u16) -> SocketAddr {
    ([127, 0, 0, 1], port).into()
}

impl Peers {
    /// Starts all, and waits until each listens.
    pub fn start(folder: &Path) -> Self {
        let mut peers = Self { tunnels: Vec::new(), tls: Vec::new(), gateway: Vec::new(), children: Vec::new() };
        let this = || mortal(env::current_exe().expect("this program has a file"));
        certificate(folder);

        let group = peers.spawn(this().arg(ours::OURS).arg(folder), &ours::PORTS);
        let entry = |name, address, group| Entry { name, address, connect: None, authority: None, group };
        let forward = entry("agent-env", local(ours::PORTS[0]), group);
        peers.tunnels.push(Entry { connect: Some(format!("{}:443", LIVE.0)), ..forward });
        let authority = Some(folder.join(ours::AUTHORITY));
        peers.tls.push(Entry { authority, ..entry("agent-env", ours::tls_address(), group) });
        peers.gateway.push(entry("agent-env", local(ours::PORTS[2]), group));

        let group = peers.spawn(this().arg(splice::SPLICE), &[splice::PORT]);
        peers.tunnels.push(entry("splice, and nothing else", local(splice::PORT), group));
        for (name, port, options) in
            [("haproxy, tcp", PORTS[0], ""), ("haproxy, tcp, splice-auto", PORTS[1], "option splice-auto")]
        {
            let file = folder.join(format!("haproxy-{port}.cfg"));
            write(&file, &haproxy(port, options));
            let group = peers.spawn(installed("haproxy").args(["-q", "-db", "-f"]).arg(file), &[port]);
            peers.tunnels.push(entry(name, local(port), group));
        }
        let connect = Some(format!("{}:443", LIVE.1));
        write(&folder.join("tinyproxy.conf"), &tinyproxy());
        let group =
            peers.spawn(installed("tinyproxy").arg("-d").arg("-c").arg(folder.join("tinyproxy.conf")), &[PORTS[2]]);
        peers.tunnels.push(Entry { connect: connect.clone(), ..entry("tinyproxy, CONNECT", local(PORTS[2]), group) });
        // Squid gives up root, and there may be nobody else to become.
        if has_proxy_user() {
            write(&folder.join("squid.conf"), &squid());
            let group = peers.spawn(
                installed("squid").args(["-N", "-n", &squid_name(), "-f"]).arg(folder.join("squid.conf")),
                &[PORTS[3]],
            );
            peers.tunnels.push(Entry { connect, ..entry("squid, CONNECT", local(PORTS[3]), group) });
        } else {
            say!("squid is left out: it needs a user of its own, and this user has only one");
        }

        write(&folder.join("nginx.conf"), &nginx(folder));
        let group = peers.spawn(installed("nginx").arg("-c").arg(folder.join("nginx.conf")), &[PORTS[4], PORTS[5]]);
        let authority = Some(folder.join("ca.pem"));
        peers.tls.push(Entry { authority, ..entry("nginx", local(PORTS[4]), group) });
        peers.gateway.push(entry("nginx", local(PORTS[5]), group));
        peers.mitmproxy(folder);
        peers
    }

    /// mitmproxy is in no Debian package that is new enough; where nobody has made its environment it is left out.
    fn mitmproxy(&mut self, folder: &Path) {
        let this = env::current_exe().expect("this program has a file");
        let venv = this.parent().and_then(Path::parent).expect("it is in the target folder").join("bench-venv");
        let program = venv.join("bin/mitmdump");
        if !program.exists() {
            let venv = venv.display();
            return say!(
                "mitmproxy is left out; to have it: python3 -m venv {venv} && {venv}/bin/pip install mitmproxy"
            );
        }
        let group = self.spawn(
            mortal(program)
                .args(["--quiet", "--mode", &format!("reverse:http://{UPSTREAM}"), "--listen-host", "127.0.0.1"])
                .args(["--set", "flow_detail=0", "--set", &format!("confdir={}", folder.join("mitm").display())])
                .args(["--listen-port", &PORTS[6].to_string()]),
            &[PORTS[6]],
        );
        self.tls.push(Entry {
            name: "mitmproxy",
            address: local(PORTS[6]),
            connect: None,
            authority: Some(folder.join("mitm/mitmproxy-ca-cert.pem")),
            group,
        });
    }

    /// Its process group.
    fn spawn(&mut self, command: &mut Command, ports: &[u16]) -> u32 {
        command.stdin(Stdio::null()).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let group = child.id();
        self.children.push(child);
        for port in ports {
            let what = format!("{command:?} listens at {port}");
            eventually(&what, WAIT, || {
                let ended = self.children.last_mut().and_then(|child| child.try_wait().ok().flatten());
                assert!(ended.is_none(), "{command:?} ended: {ended:?}");
                TcpStream::connect(local(*port)).ok()
            });
        }
        group
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a pid");
            let _ = kill_process_group(group, Signal::KILL);
            let _ = child.wait();
        }
        // Squid's shared memory, which it would find in its way.
        for entry in fs::read_dir("/dev/shm").into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&format!("{}-", squid_name())) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

fn squid_name() -> String {
    format!("agentenvbench{}", std::process::id())
}

/// Whether more than one user is mapped here.
fn has_proxy_user() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().nth(2).and_then(|count| count.parse::<u32>().ok()).is_some_and(|count| count > 1)
}

fn write(file: &Path, text: &str) {
    fs::write(file, text).expect("memory to write to");
}

/// An authority and a leaf for the site, of the same kind as ours.
fn certificate(folder: &Path) {
    let made = (|| {
        let mut authority = CertificateParams::default();
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        let (ca_key, key) = (KeyPair::generate()?, KeyPair::generate()?);
        let ca = authority.self_signed(&ca_key)?.pem();
        let leaf = CertificateParams::new([SITE.to_owned()])?.signed_by(&key, &Issuer::new(authority, ca_key))?;
        Ok::<_, rcgen::Error>((ca, leaf.pem(), key.serialize_pem()))
    })();
    let (ca, leaf, key) = made.expect("a certificate can be made");
    write(&folder.join("ca.pem"), &ca);
    write(&folder.join("leaf.pem"), &format!("{leaf}{ca}"));
    write(&folder.join("key.pem"), &key);
}

fn haproxy(port: u16, options: &str) -> String {
    format!(
        "global\n  nbthread 2\n  maxconn 1000\ndefaults\n  mode tcp\n  {options}\n  timeout connect 5s\n  timeout client \
         60s\n  timeout server 60s\nlisten tunnel\n  bind 127.0.0.1:{port}\n  server origin {}:443\n",
        LIVE.1
    )
}

fn tinyproxy() -> String {
    format!("Port {}\nListen 127.0.0.1\nTimeout 60\nMaxClients 100\nLogLevel Critical\nConnectPort 443\n", PORTS[2])
}

fn squid() -> String {
    format!(
        "http_port 127.0.0.1:{}\nhttp_access allow all\ncache deny all\naccess_log none\ncache_log /dev/null\npid_filename \
         none\ncoredump_dir none\ncache_effective_user proxy\nshutdown_lifetime 0 seconds\npinger_enable off\n",
        PORTS[3]
    )
}

fn nginx(folder: &Path) -> String {
    let folder = folder.display();
    let to_site = format!(
        "proxy_pass http://site/; proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host {SITE}; \
         proxy_set_header X-Forwarded-For $remote_addr; proxy_set_header X-Forwarded-Proto https;"
    );
    format!(
        "user root; daemon off; worker_processes 2; pid {folder}/nginx.pid; error_log /dev/null;\n\
         events {{ worker_connections 1024; }}\n\
         http {{\n\
         access_log off; keepalive_requests 100000000;\n\
         client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-proxy;\n\
         fastcgi_temp_path {folder}/nginx-fastcgi; uwsgi_temp_path {folder}/nginx-uwsgi; scgi_temp_path {folder}/nginx-scgi;\n\
         upstream site {{ server {UPSTREAM}; keepalive 32; keepalive_requests 100000000; }}\n\
         server {{ listen 127.0.0.1:{} ssl; ssl_certificate {folder}/leaf.pem; ssl_certificate_key {folder}/key.pem;\n\
         ssl_protocols TLSv1.2 TLSv1.3; location / {{ {to_site} }} }}\n\
         server {{ listen 127.0.0.1:{}; location /website/shop/ {{ {to_site} }} }}\n\
         }}\n",
        PORTS[4], PORTS[5]
    )
}
