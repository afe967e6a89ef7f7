//! HTTP/1 conversations: what the two directions of a connection say, paired.

mod body;
mod conversation;
mod decode;
mod head;
mod open;
mod parser;

pub(crate) use body::Bodies;
pub(crate) use conversation::{Conversation, Ending};
