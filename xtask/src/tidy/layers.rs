//! Who may depend on whom: the leaves on nobody of the house, the gateway on the leaves. And the servers that tests
//! start are for tests alone.

use crate::workspace::Workspace;

/// What only tests may use.
const SERVERS: &str = "fairlane-redis-servers";

/// Whose tests use it.
const USERS_OF_SERVERS: [&str; 3] = ["fairlane-limiter", "fairlane-gateway", "fairlane-tests"];

const LEAVES: [&str; 4] = ["fairlane-config", "fairlane-fair-queue", "fairlane-identity", "fairlane-limiter"];

pub(super) fn check(workspace: &Workspace) -> anyhow::Result<Vec<String>> {
    let mut problems = Vec::new();
    for package in &workspace.packages {
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            problems.extend(problem(&package.name, &dependency.name, dependency.is_for_tests()));
        }
    }
    Ok(problems)
}

/// What is wrong with one package of the workspace using another, if anything is.
fn problem(from: &str, to: &str, for_tests: bool) -> Option<String> {
    let allowed = match from {
        // A crate's tests may switch on features of its own.
        _ if from == to => true,
        // A package that consists of tests has no need to say so.
        _ if to == SERVERS => USERS_OF_SERVERS.contains(&from) && (for_tests || from == "fairlane-tests"),
        SERVERS => false,
        leaf if LEAVES.contains(&leaf) => false,
        "fairlane-gateway" => LEAVES.contains(&to),
        "xtask" => to == "fairlane-config",
        "fairlane-tests" => LEAVES.contains(&to) || to == "fairlane-gateway",
        _ => return Some(format!("{from}: give it its place in the layers that `cargo xtask tidy` knows")),
    };
    (!allowed).then(|| format!("{from} must not depend on {to}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_know_nobody_and_only_the_gateway_knows_them_all() {
        let check =
            |from, to, allowed| assert_eq!(problem(from, to, false).is_none(), allowed, "{from} -> {to}");
        for leaf in LEAVES {
            check("fairlane-gateway", leaf, true);
            check("fairlane-tests", leaf, true);
            check(leaf, leaf, true);
            check(leaf, "fairlane-gateway", false);
            for other in LEAVES.into_iter().filter(|other| *other != leaf) {
                check(leaf, other, false);
            }
        }
        check("xtask", "fairlane-config", true);
        check("xtask", "fairlane-gateway", false);
        check("fairlane-gateway", "fairlane-tests", false);
        check("fairlane-common", "fairlane-config", false);
    }

    #[test]
    fn servers_for_tests_are_for_tests() {
        let check = |from, for_tests, allowed| {
            assert_eq!(
                problem(from, SERVERS, for_tests).is_none(),
                allowed,
                "{from}, for tests: {for_tests}"
            );
        };
        for user in ["fairlane-limiter", "fairlane-gateway"] {
            check(user, true, true);
            check(user, false, false);
        }
        check("fairlane-tests", false, true);
        check("fairlane-config", true, false);
        check("xtask", true, false);
        assert!(problem(SERVERS, "fairlane-limiter", true).is_some(), "they know nobody");
    }
}
