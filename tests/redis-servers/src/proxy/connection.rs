//! One connection through the proxy.
//!
//! Commands are read one by one, and either passed on or answered here; the order of the answers is that of the
//! commands in both cases, as it is with a real server.

use std::{
    collections::VecDeque,
    future::pending,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use tokio::{
    io::AsyncWriteExt as _,
    net::{
        TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{Fault, Shared};
use crate::resp::{Frames, command_name, is_push};

/// What stands in the row of answers.
#[derive(Debug)]
enum Place {
    /// The server is connected; its replies come from here.
    Connected(OwnedReadHalf),
    /// Kept for the server's reply to the command of this name.
    Forwarded(String),
    /// Answered by the proxy.
    Answered(Bytes),
}

/// A reply on its way to the client.
#[derive(Debug)]
struct Reply {
    came: Instant,
    bytes: Bytes,
    /// The command that the server answers with it; none for what the proxy answers, and for what was not asked.
    to: Option<String>,
}

/// Serves a client until one of the two sides leaves, or the connection is cut.
pub(super) async fn serve(client: TcpStream, shared: Arc<Shared>) {
    let _open = Open::new(&shared);
    let mut cut = shared.cut.subscribe();
    client.set_nodelay(true).ok();
    let (read, write) = client.into_split();
    let (places, row) = mpsc::unbounded_channel();
    let (replies, outgoing) = mpsc::unbounded_channel();
    let lost = AtomicBool::new(false);
    // Whichever ends first ends the connection: dropping the others drops the sockets.
    tokio::select! {
        () = commands(read, &places, &shared, &lost) => {}
        () = order(row, &replies) => {}
        () = output(outgoing, write, &shared, &lost) => {}
        _ = cut.changed() => {}
    }
}

/// Reads commands, and passes them on or answers them.
async fn commands(
    client: OwnedReadHalf,
    places: &mpsc::UnboundedSender<Place>,
    shared: &Shared,
    lost: &AtomicBool,
) {
    let mut commands = Frames::new(client);
    let mut server: Option<OwnedWriteHalf> = None;
    while let Some(command) = commands.next().await {
        let name = command_name(&command);
        let fault = shared.fault.borrow().clone();
        let answer = fault.answer_to(&name);
        *shared.received().entry(name.clone()).or_default() += 1;
        if fault == Fault::BlackHole {
            lost.store(true, Ordering::SeqCst);
        }
        if lost.load(Ordering::SeqCst) {
            continue;
        }
        if let Some(answer) = answer {
            places.send(Place::Answered(answer)).ok();
            continue;
        }
        if server.is_none() {
            let Ok(connected) = TcpStream::connect(shared.upstream).await else { return };
            connected.set_nodelay(true).ok();
            let (read, write) = connected.into_split();
            places.send(Place::Connected(read)).ok();
            server = Some(write);
        }
        places.send(Place::Forwarded(name)).ok();
        shared.forwarded.fetch_add(1, Ordering::SeqCst);
        let sent = match &mut server {
            Some(server) => server.write_all(&command).await,
            None => return,
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Brings the server's replies and the proxy's own answers into the order of the commands.
async fn order(mut row: mpsc::UnboundedReceiver<Place>, replies: &mpsc::UnboundedSender<Reply>) {
    let mut server: Option<Frames<OwnedReadHalf>> = None;
    let mut open = VecDeque::new();
    loop {
        tokio::select! {
            // Places first: a command has its place before the server can reply to it.
            biased;
            place = row.recv() => match place {
                Some(Place::Connected(read)) => server = Some(Frames::new(read)),
                Some(place) => open.push_back(place),
                None => return,
            },
            reply = next(&mut server) => {
                let Some(reply) = reply else { return };
                let place = if is_push(&reply) { None } else { open.pop_front() };
                let to = match place {
                    Some(Place::Forwarded(command)) => Some(command),
                    _ => None,
                };
                replies.send(Reply { came: Instant::now(), bytes: reply, to }).ok();
            }
        }
        while let Some(Place::Answered(answer)) =
            open.pop_front_if(|place| matches!(place, Place::Answered(_)))
        {
            replies.send(Reply { came: Instant::now(), bytes: answer, to: None }).ok();
        }
    }
}

async fn next(server: &mut Option<Frames<OwnedReadHalf>>) -> Option<Bytes> {
    match server {
        Some(server) => server.next().await,
        None => pending().await,
    }
}

/// Writes replies to the client, as the fault of the moment allows.
async fn output(
    mut outgoing: mpsc::UnboundedReceiver<Reply>,
    mut client: OwnedWriteHalf,
    shared: &Shared,
    lost: &AtomicBool,
) {
    let mut fault = shared.fault.subscribe();
    while let Some(Reply { came, mut bytes, to }) = outgoing.recv().await {
        loop {
            let now = fault.borrow_and_update().clone();
            match now {
                _ if lost.load(Ordering::SeqCst) => pending().await,
                Fault::BlackHole => lost.store(true, Ordering::SeqCst),
                Fault::Hold => drop(fault.changed().await),
                Fault::Delay(delay) if Instant::now() < came + delay => tokio::select! {
                    () = sleep_until(came + delay) => {}
                    _ = fault.changed() => {}
                },
                Fault::CutReply { to: spoiled, length }
                    if spoiled.include(to.as_deref().unwrap_or_default()) =>
                {
                    bytes.truncate(length);
                    client.write_all(&bytes).await.ok();
                    return;
                }
                Fault::Pass
                | Fault::Delay(_)
                | Fault::Refuse
                | Fault::CutReply { .. }
                | Fault::Answer { .. } => break,
            }
        }
        if client.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Counts a connection as open while it lives.
struct Open<'a>(&'a Shared);

impl<'a> Open<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
