//! Bytes as a test wants them, where a sound client would not send them.

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::wait::within;

/// A connection without a protocol.
#[derive(Debug)]
pub struct Raw {
    stream: TcpStream,
}

impl Raw {
    pub(super) const fn new(stream: TcpStream) -> Self {
        Self { stream }
    }

    /// Sends bytes. What the other side has closed takes none, which is no failure here.
    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        _ = within("bytes to be taken", self.stream.write_all(bytes.as_ref())).await;
    }

    /// Reads until the other side closes.
    pub async fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        _ = within("the connection to be closed", self.stream.read_to_end(&mut bytes)).await;
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Reads until what came holds `part`.
    pub async fn until(&mut self, part: &str) -> String {
        let mut bytes = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&bytes);
            if text.contains(part) {
                return text.into_owned();
            }
            let read = within(part, self.stream.read_buf(&mut bytes)).await;
            assert!(read.is_ok_and(|read| read > 0), "closed before `{part}`");
        }
    }
}
