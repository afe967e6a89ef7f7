//! Tests of the whole way from packets to exchanges.

mod garbage;
mod http;
mod loss;
mod secrets;
mod segments;
mod tcp;
mod tls;
