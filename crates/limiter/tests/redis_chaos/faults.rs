//! Faults between the store and a healthy server.

use std::time::Duration;

use fairlane_redis_servers::Fault;

use crate::{
    support::TIMEOUT,
    trial::{Lost, proxied},
};

#[tokio::test]
async fn a_server_that_cannot_be_reached() {
    let slow = Fault::Delay(TIMEOUT + Duration::from_millis(50));
    let faults = [
        ("refused connections", Fault::Refuse),
        ("a black hole", Fault::BlackHole),
        ("replies later than the timeout", slow),
        ("held replies", Fault::Hold),
    ];
    proxied(Lost::Counted, faults.map(|(what, fault)| (what.to_owned(), fault))).await;
}

#[tokio::test]
async fn replies_that_are_cut() {
    let cut = |length| (format!("replies cut after {length} bytes"), Fault::cut_reply(length));
    proxied(Lost::Counted, [0, 1, 2, 5, 9].map(cut)).await;
}

#[tokio::test]
async fn a_server_that_speaks_something_else() {
    let faults = [
        ("garbage", Fault::garbage()),
        ("binary garbage", Fault::answer(&[0, 255, 13, 10, 13, 10][..])),
        ("half a reply", Fault::answer("*5\r\n:1\r\n")),
        ("an endless string", Fault::answer("$536870912\r\n")),
    ];
    proxied(Lost::Counted, faults.map(|(what, fault)| (what.to_owned(), fault))).await;
}

/// What servers say that cannot serve anybody.
#[tokio::test]
async fn a_server_that_refuses_everything() {
    let lines = [
        "LOADING Redis is loading the dataset in memory",
        "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "NOAUTH Authentication required.",
        "ERR max number of clients reached",
        "NOBODY knows this error",
    ];
    proxied(Lost::Nothing, lines.map(|line| (line.to_owned(), Fault::error(line)))).await;
}

/// What servers say that look healthy otherwise.
#[tokio::test]
async fn a_server_that_refuses_scripts() {
    let lines = [
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "NOPERM User default has no permissions to run the 'evalsha' command",
        "ERR unknown command 'EVALSHA'",
        "NOSCRIPT No matching script.",
        "CLUSTERDOWN The cluster is down",
        "MOVED 3999 127.0.0.1:1",
        "ASK 3999 127.0.0.1:1",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "EXECABORT Transaction discarded",
        "",
    ];
    proxied(Lost::Nothing, lines.map(|line| (format!("the error {line:?}"), Fault::script_error(line))))
        .await;
}

/// Replies that are well-formed, and lies.
#[tokio::test]
async fn a_server_that_answers_what_no_script_returns() {
    let replies = [
        "+OK\r\n",
        ":1\r\n",
        ":9223372036854775807\r\n",
        "$-1\r\n",
        "$0\r\n\r\n",
        "$1\r\n1\r\n",
        "*-1\r\n",
        "*0\r\n",
        "*1\r\n:1\r\n",
        "*2\r\n:1\r\n:1\r\n",
        "*3\r\n:1\r\n$-1\r\n*0\r\n",
        "*1\r\n*1\r\n*1\r\n*0\r\n",
        "_\r\n",
        "#t\r\n",
        "%1\r\n+granted\r\n#t\r\n",
    ];
    let faults = replies.map(|reply| (format!("the reply {reply:?}"), Fault::script_answer(reply)));
    proxied(Lost::Counted, faults).await;
}
