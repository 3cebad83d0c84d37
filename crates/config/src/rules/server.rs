use std::net::SocketAddr;

use super::Rules;
use crate::{diagnostic::KeyPath, model::Server, tree::Value};

impl Rules<'_> {
    pub(super) fn server(&mut self) {
        let defaults = Server::default();
        let address = |rules: &Self, key, default| match rules.find(key).map(|node| &node.value) {
            None => default,
            Some(Value::Text(text)) => text.parse::<SocketAddr>().ok(),
            Some(_) => None,
        };
        let listen = address(self, "server.listen", Some(defaults.listen));
        let admin = address(self, "server.admin_listen", defaults.admin_listen);
        let admin_path = KeyPath::of("server.admin_listen");
        if let (Some(listen), Some(admin)) = (listen, admin)
            && listen.port() == admin.port()
            && listen.port() != 0
            && (listen.ip() == admin.ip() || listen.ip().is_unspecified() || admin.ip().is_unspecified())
        {
            self.conflict(
                admin_path.clone(),
                "the admin plane and the callers cannot share one port",
                "give it another port, or `null` to switch it off",
            );
        }
        if admin.is_some_and(|admin| !admin.ip().is_loopback()) && self.text("admin.token") == Some("") {
            self.conflict(
                admin_path,
                "an admin plane that others can reach needs `admin.token`",
                "set `admin.token` (by default it is the variable FAIRLANE_ADMIN_TOKEN), or listen on 127.0.0.1",
            );
        }
        let paths: Vec<_> =
            self.items("server.paths").filter_map(|(path, item)| Some((path, item.text()?))).collect();
        self.unique("this path is given twice", paths);
    }
}
