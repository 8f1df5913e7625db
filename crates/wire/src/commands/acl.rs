//! Commands about users: their names, their permissions, and the log of refusals.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! acl_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Acl "acl", Server, arity -2, since "6.0.0"
    [] []
    summary "Holds the commands about users and what they may do."
    complexity "Depends on subcommand."
    grammar "";

AclCat "acl|cat" of Acl, Server, arity -2, since "6.0.0"
    [NOSCRIPT LOADING STALE] []
    summary "Lists the categories of commands, or the commands of one."
    complexity "O(1) since the categories and commands are a fixed set."
    grammar "[category]";

AclDelUser "acl|deluser" of Acl, Server, arity -3, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Removes users and closes their connections."
    complexity "O(1) amortized time considering the typical user."
    grammar "username...";

AclDryRun "acl|dryrun" of Acl, Server, arity -4, since "7.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Says whether a user may run a command, without running it."
    complexity "O(1)."
    grammar "username command [arg...]";

AclGenPass "acl|genpass" of Acl, Server, arity -2, since "6.0.0"
    [NOSCRIPT LOADING STALE] []
    summary "Makes up a password that nobody can guess."
    complexity "O(1)"
    grammar "[bits:integer]";

AclGetUser "acl|getuser" of Acl, Server, arity 3, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Describes a user, piece by piece."
    complexity "O(N). Where N is the number of password, command and pattern rules that the user has."
    grammar "username";

AclHelp "acl|help" of Acl, Server, arity 2, since "6.0.0"
    [LOADING STALE] []
    summary "Lists the subcommands of ACL."
    complexity "O(1)"
    grammar "";

AclList "acl|list" of Acl, Server, arity 2, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Describes all users, as lines of the configuration file."
    complexity "O(N). Where N is the number of configured users."
    grammar "";

AclLoad "acl|load" of Acl, Server, arity 2, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Replaces all users by those of the ACL file."
    complexity "O(N). Where N is the number of configured users."
    grammar "";

AclLog "acl|log" of Acl, Server, arity -2, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Shows what was refused to whom lately, or forgets it."
    complexity "O(N) with N being the number of entries shown."
    grammar "[operation=<count:integer|RESET>]";

AclSave "acl|save" of Acl, Server, arity 2, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Writes all users into the ACL file."
    complexity "O(N). Where N is the number of configured users."
    grammar "";

AclSetUser "acl|setuser" of Acl, Server, arity -3, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    secrets (Secrets::From(2))
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Changes what a user may do, or makes a new one."
    complexity "O(N). Where N is the number of rules provided."
    grammar "username [rule...]";

AclUsers "acl|users" of Acl, Server, arity 2, since "6.0.0"
    [ADMIN NOSCRIPT LOADING STALE] []
    summary "Lists the names of all users."
    complexity "O(N). Where N is the number of configured users."
    grammar "";

AclWhoAmI "acl|whoami" of Acl, Server, arity 2, since "6.0.0"
    [NOSCRIPT LOADING STALE] []
    summary "Names the user of this connection."
    complexity "O(1)"
    grammar "";

    } };
}
