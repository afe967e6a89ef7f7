//! The real network, for live hosts (NET-3): a name is resolved once, every address it has must be public, and one of those
//! that were checked is dialled.

use std::{
    io,
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use agentenv_protocol::HostName;
use hickory_resolver::{
    TokioResolver,
    config::{
        ConnectionConfig, LookupIpStrategy, NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig,
        ResolverOpts,
    },
    net::{NetError, runtime::TokioRuntimeProvider},
};
use tokio::{net::TcpStream, time::Instant};

use crate::limits::REAL_ADDRESSES;

mod proxy;
mod public;

pub use proxy::{UpstreamProxy, UpstreamProxyError};
use public::is_public;

/// How this machine reaches the real network: settings of the host (GW-6).
#[derive(Clone, Debug, Default)]
pub struct HostNetwork {
    /// Name servers to ask instead of those of `/etc/resolv.conf`.
    pub dns_servers: Vec<SocketAddr>,
    /// A proxy that every connection goes through. Names are then resolved by it, and it decides which addresses are reached.
    pub proxy: Option<UpstreamProxy>,
}

/// Why the real network can't be used.
#[derive(Debug, thiserror::Error)]
#[error("no name server is known: {0}")]
pub struct HostNetworkError(NetError);

/// Connects to real hosts. One for a deploy.
pub struct RealNetwork {
    resolver: TokioResolver,
    proxy: Option<UpstreamProxy>,
    /// Until a name is resolved and connected to.
    limit: Duration,
}

/// Why a real host was not reached.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RealError {
    #[error("it resolves to {0}, which is not a public address")]
    NotPublic(IpAddr),
    #[error("the name has no address")]
    NoAddress,
    #[error("the name can't be resolved: {0}")]
    Resolve(NetError),
    #[error("it can't be connected to: {0}")]
    Connect(#[from] io::Error),
    #[error("the upstream proxy refused: {0}")]
    Proxy(String),
    #[error("it did not answer in time")]
    Slow,
}

impl RealNetwork {
    /// Takes the host's settings; nothing is asked or dialled yet.
    pub fn new(host: &HostNetwork, limit: Duration) -> Result<Self, HostNetworkError> {
        let (config, mut options) = if host.dns_servers.is_empty() {
            hickory_resolver::system_conf::read_system_conf().map_err(HostNetworkError)?
        } else {
            let servers = host.dns_servers.iter().map(name_server).collect();
            (ResolverConfig::from_name_servers(servers), ResolverOpts::default())
        };
        // Search domains are for the host's own names, as is its hosts file.
        let config = ResolverConfig::from_name_servers(config.name_servers().to_vec());
        options.use_hosts_file = ResolveHosts::Never;
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        *builder.options_mut() = options;
        let resolver = builder.build().map_err(HostNetworkError)?;
        Ok(Self { resolver, proxy: host.proxy.clone(), limit })
    }

    /// Connects to a real host.
    pub(crate) async fn connect(&self, name: &HostName, port: u16) -> Result<TcpStream, RealError> {
        let deadline = Instant::now() + self.limit;
        let connect = async {
            let stream = match &self.proxy {
                Some(proxy) => proxy.connect(name, port).await?,
                None => first(&self.addresses(name).await?, port, self.limit).await?,
            };
            stream.set_nodelay(true)?;
            Ok(stream)
        };
        tokio::time::timeout_at(deadline, connect).await.unwrap_or(Err(RealError::Slow))
    }

    /// The addresses of a name, all of them public: one that is not condemns the name, since a client can't know which of
    /// them it would have got (rows 26 to 28).
    async fn addresses(&self, name: &HostName) -> Result<Vec<IpAddr>, RealError> {
        // With the dot, since names are never completed.
        let found = self.resolver.lookup_ip(format!("{name}.")).await.map_err(|error| {
            if error.is_nx_domain() || error.is_no_records_found() {
                RealError::NoAddress
            } else {
                RealError::Resolve(error)
            }
        })?;
        let addresses: Vec<IpAddr> = found.iter().collect();
        match addresses.iter().find(|address| !is_public(**address)) {
            Some(address) => Err(RealError::NotPublic(*address)),
            None if addresses.is_empty() => Err(RealError::NoAddress),
            None => Ok(addresses),
        }
    }
}

/// Connects to the first address that answers; each gets its share of the time.
async fn first(addresses: &[IpAddr], port: u16, limit: Duration) -> Result<TcpStream, RealError> {
    let tried = &addresses[..addresses.len().min(REAL_ADDRESSES)];
    let share = limit / u32::try_from(tried.len().max(1)).unwrap_or(1);
    let mut last = RealError::NoAddress;
    for address in tried {
        match tokio::time::timeout(share, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => last = error.into(),
            Err(_) => last = RealError::Slow,
        }
    }
    Err(last)
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let connections = [ProtocolConfig::Udp, ProtocolConfig::Tcp].map(|protocol| {
        let mut connection = ConnectionConfig::new(protocol);
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.into())
}
