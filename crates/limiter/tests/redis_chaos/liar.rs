//! A server that speaks the protocol well, and lies.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use fairlane_limiter::{RedisStore, Settlement, Store as _, StoreError, redis::Mode};
use fairlane_redis_servers::wait::until;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
};

use crate::support::{bucket, fresh, settings, take};

/// What the script would be answered: the verdict, what it was asked, the time, and what was stored of each bucket.
#[derive(Clone, Debug)]
struct Reply {
    verdict: u8,
    head: Vec<u8>,
    now: f64,
    states: Vec<[f64; 5]>,
}

/// Makes a lie of an honest reply.
type Lie = fn(&mut Reply);

/// The time that the server tells, in microseconds.
const NOW: f64 = 1_700_000_000_000_000.0;

/// What is stored of a bucket that there is nothing of.
const ABSENT: [f64; 5] = [0.0; 5];

/// A server whose buckets are all full. It lies to those who take or settle, and is honest with those who only look.
struct Liar {
    address: SocketAddr,
    lie: Arc<Mutex<Lie>>,
}

impl Liar {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, lie) = (listener.local_addr().unwrap(), Arc::new(Mutex::new((|_| {}) as Lie)));
        let told = Arc::clone(&lie);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&told)));
            }
        });
        Self { address, lie }
    }

    fn tell(&self, lie: Lie) {
        *self.lie.lock().unwrap() = lie;
    }
}

async fn serve(stream: TcpStream, lie: Arc<Mutex<Lie>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    loop {
        let words = command(&mut stream).await?;
        let answer = match words[0].to_ascii_uppercase().as_slice() {
            b"EVALSHA" | b"EVAL" => bulk(&script(&words, *lie.lock().unwrap())),
            b"ROLE" => b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_vec(),
            b"PING" if words.len() > 1 => bulk(&words[1]),
            b"INFO" => bulk(b""),
            _ => b"+OK\r\n".to_vec(),
        };
        stream.write_all(&answer).await?;
    }
}

async fn command(stream: &mut BufReader<TcpStream>) -> std::io::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    for _ in 0..number(stream).await? {
        let mut word = vec![0; number(stream).await? + 2];
        stream.read_exact(&mut word).await?;
        word.truncate(word.len() - 2);
        words.push(word);
    }
    Ok(words)
}

/// The number in a line such as `*3` or `$12`.
async fn number(stream: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    if stream.read_line(&mut line).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    line[1..].trim().parse().map_err(std::io::Error::other)
}

fn bulk(bytes: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn script(words: &[Vec<u8>], lie: Lie) -> Vec<u8> {
    let keys: usize = std::str::from_utf8(&words[2]).unwrap().parse().unwrap();
    let head = words[3 + keys].clone();
    let asked = head[0];
    // The last key of a settlement is its mark.
    let (verdict, buckets) = if asked == b's' { (b's', keys - 1) } else { (b'g', keys) };
    let mut reply = Reply { verdict, head, now: NOW, states: vec![ABSENT; buckets] };
    if asked != b'p' {
        lie(&mut reply);
    }
    let numbers = std::iter::once(reply.now).chain(reply.states.into_iter().flatten());
    [vec![reply.verdict], reply.head, numbers.flat_map(f64::to_le_bytes).collect()].concat()
}

async fn store(liar: &Liar) -> RedisStore {
    let store = RedisStore::new(settings(&format!("redis://{}", liar.address), Mode::Standalone)).unwrap();
    serving(&store).await;
    store
}

async fn serving(store: &RedisStore) {
    until("the store to serve", || async { store.is_up().then_some(()) }).await;
}

/// Ten units at most, one a day, as it is stored.
const fn stored(units: f64) -> [f64; 5] {
    [units, 0.0, NOW, 10.0, 1.0]
}

/// A lie by which nothing was taken.
const DENIED: &str = "denied by a full bucket";

/// Lies that do not hold together, or are not even numbers that can be.
const LIES: &[(&str, Lie)] = &[
    ("granted from an empty bucket", |reply| reply.states[0] = stored(0.0)),
    ("granted in debt", |reply| reply.states[0] = stored(-3.0)),
    (DENIED, |reply| reply.verdict = b'd'),
    ("settled, though a decision was asked for", |reply| reply.verdict = b's'),
    ("a verdict that there is not", |reply| reply.verdict = b'G'),
    ("the answer to a look", |reply| reply.head[0] = b'p'),
    ("the answer to another request", |reply| reply.head[4] ^= 1),
    ("half of what was asked", |reply| reply.head.truncate(5)),
    ("a bucket too many", |reply| reply.states.push(ABSENT)),
    ("a bucket too few", |reply| reply.states.clear()),
    ("no time", |reply| reply.now = f64::NAN),
    ("a time before all times", |reply| reply.now = -1.0),
    ("a time between two microseconds", |reply| reply.now += 0.5),
    ("an endless time", |reply| reply.now = f64::INFINITY),
    ("more than fits", |reply| reply.states[0] = stored(11.0)),
    ("a deeper debt than there is", |reply| reply.states[0] = stored(-1e16)),
    ("half a unit", |reply| reply.states[0] = stored(4.5)),
    ("no number of units", |reply| reply.states[0] = stored(f64::NAN)),
    ("a part below nothing", |reply| reply.states[0][..].copy_from_slice(&[5.0, -1.0, NOW, 10.0, 1.0])),
    ("a part that is a whole", |reply| {
        reply.states[0][..].copy_from_slice(&[5.0, 86_400_000_000.0, NOW, 10.0, 1.0]);
    }),
    ("no capacity", |reply| reply.states[0][..].copy_from_slice(&[0.0, 0.0, NOW, 0.0, 1.0])),
    ("no refill", |reply| reply.states[0][..].copy_from_slice(&[5.0, 0.0, NOW, 10.0, 0.0])),
    ("a capacity beyond all", |reply| reply.states[0][..].copy_from_slice(&[5.0, 0.0, NOW, 9e15, 1.0])),
];

#[tokio::test]
async fn nothing_is_decided_by_a_lie_that_shows() {
    let liar = Liar::start().await;
    let store = store(&liar).await;
    let charge = bucket(fresh(), 10, 1);
    assert!(take(&store, charge).await.is_granted(), "it can be honest");
    for (what, lie) in LIES {
        liar.tell(*lie);
        let before = store.stats().grants_lost;
        let taken = take(&store, charge).await;
        assert!(matches!(taken.result, Err(StoreError::Protocol(_))), "{what}: {taken:?}");
        // It may have taken something, unless it says that it has not.
        let lost = u64::from(*what != DENIED);
        assert_eq!(store.stats().grants_lost - before, lost, "{what}");
        taken.assert_in_time(what);
        liar.tell(|_| {});
        serving(&store).await;
        assert!(take(&store, charge).await.is_granted(), "after {what}");
    }
}

#[tokio::test]
async fn nothing_is_settled_by_a_lie_that_shows() {
    let liar = Liar::start().await;
    let mut settings = settings(&format!("redis://{}", liar.address), Mode::Standalone);
    settings.settle_within = std::time::Duration::from_millis(200);
    let store = RedisStore::new(settings).unwrap();
    serving(&store).await;
    let charge = bucket(fresh(), 10, 1);
    let settlement = [Settlement::new(charge.key, charge.quota, -1)];
    let settle = || store.settle(&settlement);
    assert_eq!(settle().await.unwrap().remaining(0), Some(9), "it can be honest");
    let lies: &[(&str, Lie)] = &[
        ("a decision, though a settlement was asked for", |reply| reply.verdict = b'g'),
        ("the settlement of another", |reply| reply.head[4] ^= 1),
        ("a bucket too few", |reply| reply.states.clear()),
        ("more than fits", |reply| reply.states[0] = stored(11.0)),
        // Neither is one: it would have to be tried with a later time for ever.
        ("always too late", |reply| {
            reply.verdict = b'x';
            reply.states.clear();
        }),
    ];
    for (what, lie) in lies {
        liar.tell(*lie);
        assert!(settle().await.is_err(), "{what}");
        liar.tell(|_| {});
        serving(&store).await;
    }
}
