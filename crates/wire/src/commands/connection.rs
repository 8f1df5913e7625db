//! Commands about the connection itself.
//!
//! Rows only; `mod.rs` explains the form of a row.

macro_rules! connection_rows {
    ([$next:ident $($rest:ident)*] $($done:tt)*) => { $next! { [$($rest)*] $($done)*

Auth "auth", Connection, arity -2, since "1.0.0"
    [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [CONNECTION]
    connection Greeting
    secrets (Secrets::From(1))
    summary "Authenticates the connection."
    complexity "O(N) where N is the number of passwords defined for the user"
    grammar "[username@6.0.0] password";

Client "client", Connection, arity -2, since "2.4.0"
    [] []
    summary "Holds the commands about client connections."
    complexity "Depends on subcommand."
    grammar "";

ClientCaching "client|caching" of Client, Connection, arity 3, since "6.0.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    connection Tracking
    summary "Says whether the keys of the next command are to be remembered for this connection."
    complexity "O(1)"
    grammar "mode=<YES|NO>";

ClientCapa "client|capa" of Client, Connection, arity -3, since "8.0.0"
    [NOSCRIPT LOADING STALE ALLOW_BUSY] [CONNECTION]
    connection Greeting
    summary "Says what this connection can do: with REDIRECT a replica sends it to the primary."
    complexity "O(1)"
    grammar "capability...";

ClientGetName "client|getname" of Client, Connection, arity 2, since "2.6.9"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Gives the name of this connection."
    complexity "O(1)"
    grammar "";

ClientGetRedir "client|getredir" of Client, Connection, arity 2, since "6.0.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Gives the number of the connection that is told instead of this one what has changed."
    complexity "O(1)"
    grammar "";

ClientHelp "client|help" of Client, Connection, arity 2, since "5.0.0"
    [LOADING STALE] [CONNECTION]
    summary "Lists the subcommands of CLIENT."
    complexity "O(1)"
    grammar "";

ClientId "client|id" of Client, Connection, arity 2, since "5.0.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Gives the number of this connection, which is never used twice."
    complexity "O(1)"
    grammar "";

ClientInfo "client|info" of Client, Connection, arity 2, since "6.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    tips "nondeterministic_output"
    summary "Describes this connection."
    complexity "O(1)"
    grammar "";

ClientJournal "client|journal" of Client, Connection, arity -3, since "7.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    connection Journal
    summary "Has this connection told how far the log shows what its replies show, and how far the disk and replicas have it. \
        Sleeve's own."
    complexity "O(1)"
    grammar "enabled=<ON|OFF> [REPLICAS]";

ClientKill "client|kill" of Client, Connection, arity -3, since "2.4.0"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Closes the connections that pass a filter."
    complexity "O(N) where N is the number of client connections"
    grammar "filter=<ip:port!2.8.12|new-format=<[ID client-id:integer@2.8.12]|[TYPE \
        normal_master_slave_pubsub=<NORMAL|MASTER@3.2.0|SLAVE|REPLICA@5.0.0|PUBSUB>@2.8.12]|[USER username]|[ADDR \
        ip:port]|[LADDR ip:port@6.2.0]|[SKIPME yes/no]|[MAXAGE maxage:integer@7.4.0]>...>";

ClientList "client|list" of Client, Connection, arity -2, since "2.4.0"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    tips "nondeterministic_output"
    summary "Describes all connections, or those that pass a filter."
    complexity "O(N) where N is the number of client connections"
    grammar "[TYPE normal_master_replica_pubsub=<NORMAL|MASTER|REPLICA|PUBSUB>@5.0.0] [ID \
        id=<client-id:integer...>@6.2.0]";

ClientNoEvict "client|no-evict" of Client, Connection, arity 3, since "7.0.0"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Exempts this connection from being closed for lack of memory, or no longer."
    complexity "O(1)"
    grammar "enabled=<ON|OFF>";

ClientNoTouch "client|no-touch" of Client, Connection, arity 3, since "7.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Makes this connection's commands leave keys' last use as it is, or no longer."
    complexity "O(1)"
    grammar "enabled=<ON|OFF>";

ClientPause "client|pause" of Client, Connection, arity -3, since "2.9.50"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    reach All
    summary "Holds back the commands of all clients, or only the writing ones, for a time."
    complexity "O(1)"
    grammar "timeout:integer [mode=<WRITE|ALL>@6.2.0]";

ClientReply "client|reply" of Client, Connection, arity 3, since "3.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    connection Silence
    summary "Turns replies to this connection on or off, or skips the next one."
    complexity "O(1)"
    grammar "on_off_skip=<ON|OFF|SKIP>";

ClientRings "client|rings" of Client, Connection, arity 2, since "7.2.0"
    [NOSCRIPT LOADING STALE NO_MULTI] [CONNECTION]
    summary "Has this connection go on through memory that the server hands over its Unix socket. Sleeve's own."
    complexity "O(1)"
    grammar "";

ClientSetInfo "client|setinfo" of Client, Connection, arity 4, since "7.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    tips "request_policy:all_nodes" "response_policy:all_succeeded"
    summary "Tells the server the name or version of the client's library."
    complexity "O(1)"
    grammar "attr=<LIB-NAME libname|LIB-VER libver>";

ClientSetName "client|setname" of Client, Connection, arity 3, since "2.6.9"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Names this connection."
    complexity "O(1)"
    grammar "connection-name";

ClientTracking "client|tracking" of Client, Connection, arity -3, since "6.0.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    connection Tracking
    summary "Has this connection told when keys change that it has read, or no longer."
    complexity "O(1). Some options may introduce additional complexity."
    grammar "status=<ON|OFF> [REDIRECT client-id:integer] [PREFIX prefix...+] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]";

ClientTrackingInfo "client|trackinginfo" of Client, Connection, arity 2, since "6.2.0"
    [NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Says what this connection is told about changing keys."
    complexity "O(1)"
    grammar "";

ClientUnblock "client|unblock" of Client, Connection, arity -3, since "5.0.0"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Wakes a client that waits in a blocking command."
    complexity "O(log N) where N is the number of client connections"
    grammar "client-id:integer [timeout_error=<TIMEOUT|ERROR>]";

ClientUnpause "client|unpause" of Client, Connection, arity 2, since "6.2.0"
    [ADMIN NOSCRIPT LOADING STALE] [CONNECTION]
    summary "Ends a CLIENT PAUSE."
    complexity "O(N) Where N is the number of paused clients"
    grammar "";

Echo "echo", Connection, arity 2, since "1.0.0"
    [LOADING STALE FAST] [CONNECTION]
    summary "Gives back its argument."
    complexity "O(1)"
    grammar "message";

Hello "hello", Connection, arity -1, since "6.0.0"
    [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [CONNECTION]
    connection Greeting
    secrets (Secrets::Behind(SecretWords { from: 1, words: &[("auth", 2)], end: None }))
    summary "Chooses the protocol version, and can authenticate and name the connection with it."
    complexity "O(1)"
    grammar "[arguments=<protover:integer [AUTH username_password=<username password>] [SETNAME clientname]>]";

Ping "ping", Connection, arity -1, since "1.0.0"
    [FAST] [CONNECTION]
    tips "request_policy:all_shards" "response_policy:all_succeeded"
    summary "Answers PONG, or gives back its argument."
    complexity "O(1)"
    grammar "[message]";

Quit "quit", Connection, arity -1, since "1.0.0"
    [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [CONNECTION]
    connection Greeting
    summary "Closes the connection after the reply."
    complexity "O(1)"
    grammar "";

Reset "reset", Connection, arity 1, since "6.2.0"
    [NOSCRIPT LOADING STALE FAST NO_AUTH ALLOW_BUSY] [CONNECTION]
    connection Greeting
    summary "Puts the connection back into the state in which it began."
    complexity "O(1)"
    grammar "";

Select "select", Connection, arity 2, since "1.0.0"
    [LOADING STALE FAST] [CONNECTION]
    connection Database
    summary "Chooses the connection's database."
    complexity "O(1)"
    grammar "index:integer";

    } };
}
