//! Commands of the harness itself to a server, each on a connection of its own: a kept one would be stale after
//! every fault.

use std::{net::SocketAddr, time::Duration};

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisConnectionInfo, RedisResult};

use crate::wait::PATIENCE;

/// The user that the harness is on every server, whatever a test makes of the default user.
pub(crate) const USER: &str = "harness";
pub(crate) const PASSWORD: &str = "harness-password";

/// Who the harness is on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Login {
    /// [`USER`].
    Own,
    /// The default user, without a password.
    Default,
}

/// How long a look at a server that may not be there takes at most.
pub(crate) const GLANCE: Duration = Duration::from_millis(500);

/// Sends a command and waits for its answer.
pub(crate) async fn command<T: FromRedisValue>(
    address: SocketAddr,
    login: Login,
    command: &Cmd,
) -> RedisResult<T> {
    within(PATIENCE, address, login, command).await
}

/// The same for a server that may not be there.
pub(crate) async fn glance<T: FromRedisValue>(
    address: SocketAddr,
    login: Login,
    command: &Cmd,
) -> RedisResult<T> {
    within(GLANCE, address, login, command).await
}

async fn within<T: FromRedisValue>(
    patience: Duration,
    address: SocketAddr,
    login: Login,
    command: &Cmd,
) -> RedisResult<T> {
    let info: redis::ConnectionInfo =
        redis::IntoConnectionInfo::into_connection_info((address.ip().to_string(), address.port()))?;
    let settings = RedisConnectionInfo::default().set_skip_set_lib_name();
    let settings = match login {
        Login::Own => settings.set_username(USER).set_password(PASSWORD),
        Login::Default => settings,
    };
    let client = Client::open(info.set_redis_settings(settings))?;
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(patience))
        .set_response_timeout(Some(patience));
    let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
    command.query_async(&mut connection).await
}

/// A command from its words.
pub(crate) fn words(words: &[&str]) -> Cmd {
    let mut command = Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command
}

/// The value of a field in the answer to INFO or CLUSTER INFO.
pub(crate) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'))
}

#[test]
fn fields_are_found_by_their_whole_name() {
    let info = "# Server\r\nprocess_id_of:1\r\nprocess_id:42\r\n";
    assert_eq!(field(info, "process_id"), Some("42"));
    assert_eq!(field(info, "process"), None);
}
