#!/bin/bash
# Runs the forms in which people start Redis's image: trial.sh ROOT REPORT [TEXT]
#
# ROOT is the image's unpacked root file system; the files `entrypoint`, `command` and `environment` beside it have what its
# configuration says. A form starts the entrypoint there as a container would, in namespaces of processes and mounts of its
# own, and asks what came of it. It does the same on a copy of this machine's files with Debian's redis-server and redis-tools,
# and both must say the same. REPORT gets a line for each form; TEXT selects forms by their names. REDIS_SERVER,
# REDIS8_SERVER and VALKEY_SERVER name the servers that write the volumes; REPORT has a line `skipped` for each form that needs
# one of them which is empty. All of it happens in a network without a way out.
set -euo pipefail

if [ "${4:-}" != inside ]; then
    place=$(mktemp -d)
    status=0
    # No form waits for ever.
    timeout --signal=KILL 300 unshare --mount --net --pid --fork --kill-child "$0" "$1" "$2" "${3:-}" inside "$place" || status=$?
    rmdir "$place"
    exit "$status"
fi
image=$(realpath "$1") report=$(realpath "$2") only=$3 place=$5
: >"$report"

mount -t tmpfs trial "$place"
mount -t proc proc /proc
ip link set lo up
# An address that is not the machine's own loopback, as other containers have.
ip address add 10.99.99.1/32 dev lo

# Debian's Redis, on a copy of this machine's files, with the entrypoint and the users of the image.
mkdir "$place/upper" "$place/work" "$place/debian"
mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" trial "$place/debian"
debian=$place/debian
mkdir -p "$debian/data" "$debian/usr/local/bin" "$debian/usr/local/etc/redis"
mount -t tmpfs run "$debian/run"
mount -t tmpfs tmp "$debian/tmp"
cp "$image/usr/local/bin/docker-entrypoint.sh" "$debian/usr/local/bin/"
for table in passwd group; do
    { grep '^sleeve:' "$image/etc/$table"; grep -v -e '^sleeve:' "/etc/$table"; } >"$debian/etc/$table"
done
# Redis's image has another default here, and this is how it stands on a command line.
printf '#!/bin/sh\nexec %s "$@" --protected-mode no\n' "$REDIS_SERVER" >"$debian/usr/local/bin/redis-server"
chmod 755 "$debian/usr/local/bin/redis-server"
ln -s /usr/bin/redis-cli "$debian/usr/local/bin/valkey-cli"

# Each side at two places: as it is, and read-only. The volume is one folder of this machine's, mounted into both.
for side in image debian; do
    mkdir "$place/volume-$side" "$place/at-$side" "$place/ro-$side"
    for way in at ro; do
        mount --rbind "${!side}" "$place/$way-$side"
        mkdir -p "${!side}/dev" "${!side}/proc"
        mount --bind "$place/volume-$side" "$place/$way-$side/data"
        mount --bind /dev "$place/$way-$side/dev"
    done
    mount -o remount,bind,ro "$place/ro-$side"
done
mapfile -t entrypoint <"$image/../entrypoint"
mapfile -t command <"$image/../command"
mapfile -t environment <"$image/../environment"
mapfile -t health <"$image/../health"

fresh() {
    find "$volume" -mindepth 1 -delete
    chown "${1:-0:0}" "$volume"
    chmod 755 "$volume"
}
# Sets how the next container runs: --user UID:GID, --read-only, --drop (no capability), --env NAME=VALUE.
how() {
    root=$place/at-$side who=() extra=()
    while [ $# -gt 0 ]; do
        case "$1" in
            --user) who+=(--reuid "${2%:*}" --regid "${2#*:}" --clear-groups) && shift ;;
            --read-only) root=$place/ro-$side ;;
            --drop) who+=(--bounding-set=-all --inh-caps=-all --no-new-privs) ;;
            --env) extra+=("$2") && shift ;;
        esac
        shift
    done
}
# Becomes the container: runs words in its files as process 1, behind the entrypoint. The caller is a shell of its own.
contain() {
    # shellcheck disable=SC2016 # The inner shell has these.
    exec unshare --mount --pid --fork --kill-child sh -c 'mount -t proc proc "$0/proc" && exec "$@"' "$root" \
        chroot "$root" env -i -C /data "${environment[@]}" "${extra[@]}" setpriv "${who[@]}" -- "${entrypoint[@]}" "$@"
}
# Runs words beside the container's process, as `exec` does.
within() { chroot "$root" env -i -C /data "${environment[@]}" "${extra[@]}" "$@"; }
# Runs words and prints their output and how they ended.
tell() {
    local status=0
    "$@" </dev/null 2>&1 || status=$?
    echo "status $status"
}
# Sends one line to the server and prints the first line of the reply.
ask() {
    local line=
    { exec 3<>"/dev/tcp/$1/6379" && printf '%s\r\n' "$2" >&3 && IFS= read -r -t 5 line <&3; exec 3>&-; } 2>/dev/null || true
    echo "${line%$'\r'}"
}
start() {
    contain "$@" >"$place/log" 2>"$place/errors" &
    server=$!
    local tries=0 said=
    until [[ $said == +PONG || $said == -NOAUTH* ]]; do
        said=$(ask 127.0.0.1 PING)
        tries=$((tries + 1))
        if [ "$tries" -gt 400 ] || ! kill -0 "$server" 2>/dev/null; then
            echo "the server does not start: $said"
            cat "$place/log" "$place/errors"
            return 1
        fi
        sleep 0.05
    done
}
# Ends the server as `docker stop` does: a SIGTERM, and ten seconds.
stop() {
    local status=0 began=$SECONDS first
    first=$(cat "/proc/$server/task/$server/children")
    kill -TERM $first
    while kill -0 "$server" 2>/dev/null && [ $((SECONDS - began)) -le 10 ]; do sleep 0.02; done
    kill -KILL "$server" 2>/dev/null || true
    wait "$server" || status=$?
    echo "stopped with $status"
}
cli() { within redis-cli --no-auth-warning "$@"; }
# Prints the facts about the running server that the forms are about.
facts() {
    for option in dir port protected-mode appendonly save maxmemory maxmemory-policy requirepass loglevel; do
        cli "$@" config get "$option" | tr '\n' ' '
        echo
    done
    local first
    first=$(cat "/proc/$server/task/$server/children")
    echo "the server runs as $(stat -c '%u:%g' "/proc/${first% }")"
    cli "$@" set kept value
    cli "$@" save
    # The lock of the AOF keeps a second server away, and Redis has none.
    (cd "$volume" && find . ! -name appendonly.aof.lock -printf '%P %u:%U:%G %m\n' | sed 's/ [^ :]*:/ /' | LC_ALL=C sort)
}
# Stops it, checks its log, starts it again with the same words and asks for the key.
again() {
    local password=$1
    shift
    stop
    echo "errors: $(cat "$place/errors")"
    # Redis itself writes one line otherwise, from its signal handler.
    echo "lines of the log in another form: $(grep -v ':signal-handler ' "$place/log" | grep -cvE '^[0-9]+:[MSCX] [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:.]+ [-.*#] .' || true)"
    start "$@"
    REDISCLI_AUTH=$password
    extra+=("REDISCLI_AUTH=$password")
    cli get kept
    stop
}

form_no_command() {
    how && fresh && start "${command[@]}" && facts
    [ "$(ask 10.99.99.1 PING)" = +PONG ] || echo "it does not listen on all addresses"
    again '' "${command[@]}"
}
form_options_behind_redis_server() {
    set -- redis-server --appendonly yes --requirepass sesame --save 60 1 --loglevel warning
    how && fresh && start "$@" && facts -a sesame
    ask 10.99.99.1 PING
    again sesame "$@"
}
form_options_alone() {
    set -- --maxmemory 256mb --maxmemory-policy allkeys-lru
    how && fresh && start "$@" && facts && again '' "$@"
}
form_configuration_files() {
    for file in /usr/local/etc/redis/redis.conf /etc/redis/redis.conf /data/x.conf; do
        how && fresh
        mkdir -p "$root${file%/*}" && chmod 755 "$root${file%/*}"
        printf 'maxmemory 64mb\nrequirepass sesame\n' >"$root$file"
        chown 0:0 "$root$file" && chmod 444 "$root$file"
        mount --bind "$root$file" "$root$file" && mount -o remount,bind,ro "$root$file"
        case "$file" in
            /usr/*) set -- redis-server "$file" ;;
            /etc/*) set -- "$file" --appendonly yes ;;
            *) set -- x.conf ;;
        esac
        start "$@" && facts -a sesame && again sesame "$@"
        umount "$root$file"
        rm -f "$root$file"
    done
}
form_a_shell_starts_it() {
    # shellcheck disable=SC2016 # The container's shell has it.
    set -- /bin/sh -c 'exec redis-server --requirepass "$REDIS_PASSWORD"'
    how --env REDIS_PASSWORD=sesame && fresh && start "$@" && facts -a sesame
    tell within sh -c 'redis-cli -a "$REDIS_PASSWORD" ping 2>/dev/null | grep PONG'
    tell within sh -c 'redis-cli ping | grep -q PONG'
    again sesame "$@"
}
form_other_users_and_no_privileges() {
    for user in 999:999 1000:1000; do
        how --user "$user" --read-only --drop && fresh "$user" && start redis-server --appendonly yes && facts
        again '' redis-server --appendonly yes
    done
    # As root the server owns what another user has left, and is not root.
    how && fresh 1000:1000 && start redis-server && facts && stop
    # Root without capabilities cannot become another user.
    how --drop --read-only && fresh 0:0 && start redis-server && facts && stop
}
form_health() {
    how && fresh && start redis-server --requirepass sesame
    tell within redis-cli ping
    tell within redis-cli -e ping
    tell within redis-cli -a sesame ping
    tell within redis-cli -a wrong ping
    tell within redis-cli --raw incr ping
    tell within redis-cli --raw -a sesame incr ping
    tell within redis-cli -h 127.0.0.1 --no-auth-warning -a sesame ping
    tell within env REDISCLI_AUTH=sesame redis-cli ping
    tell within env REDISCLI_AUTH=sesame redis-cli --raw incr ping
    tell within env REDISCLI_AUTH=sesame valkey-cli ping
    tell within sh -c 'redis-cli -a sesame --no-auth-warning ping | grep PONG'
    tell within redis-cli -p 6380 ping
    tell within redis-cli -e -a sesame --no-auth-warning nothing
    tell within redis-cli -u redis://default:sesame@127.0.0.1:6379/3 --no-auth-warning ping
    stop
}
form_tools_beside_it() {
    how && fresh && start redis-server --appendonly yes
    tell within sh -c 'for i in 1 2 3; do echo "rpush list $i"; echo "hset hash f$i $i"; done | redis-cli'
    rm -f "$place/monitor"
    within timeout 20 redis-cli monitor >"$place/monitor" &
    local monitor=$!
    until [ -s "$place/monitor" ]; do sleep 0.02; done
    within redis-cli set seen 1
    until grep -q seen "$place/monitor"; do sleep 0.02; done
    sed 's/^[0-9.]* \[0 127.0.0.1:[0-9]*\]/TIME/' "$place/monitor"
    kill "$monitor" 2>/dev/null || true
    tell within redis-cli --rdb /data/copy.rdb | sed 's/[0-9]\{2,\} bytes/N bytes/; s/[0-9a-f]\{40\}/ID/g; s/offset [0-9]*/offset N/'
    tell within redis-benchmark -q -n 100 -c 2 -t ping,set | tr '\r' '\n' | grep -E '^(PING|SET|status)' | grep -v nan |
        sed 's/[0-9.]\{3,\}/N/g' | LC_ALL=C sort -u | grep -v 'rps=\|overall'
    tell within redis-check-rdb /data/copy.rdb | tail -n 2
    tell within redis-check-aof /data/appendonlydir/appendonly.aof.manifest | tail -n 2
    tell within redis-check-aof /data/appendonlydir/appendonly.aof.1.incr.aof | tail -n 2 | sed 's/[0-9]\{2,\}/N/g'
    head -c 40 "$volume/copy.rdb" >"$volume/cut.rdb"
    tell within redis-check-rdb /data/cut.rdb | tail -n 1
    printf '*2\r\n$3\r\nGET\r\n$5\r\nab' >"$volume/cut.aof"
    tell within redis-check-aof /data/cut.aof | tail -n 1
    tell within sh -c 'yes | redis-check-aof --fix /data/cut.aof' | tail -n 1
    tell within sh -c 'redis-cli --version | cut -d " " -f 1; redis-server --version | cut -d " " -f 1-2; redis-server -v | cut -c 1-15'
    stop
}
form_health_checks_of_others() {
    how && fresh && start redis-server
    # HAProxy's tcp-check sends PING, asks for the role, and quits.
    exec 3<>/dev/tcp/127.0.0.1/6379
    printf 'PING\r\ninfo replication\r\nQUIT\r\n' >&3
    grep -aE '^(\+PONG|role:|\+OK)' <&3 | tr -d '\r'
    exec 3>&-
    stop
}
# Redis's program has a Sentinel and ours has none, so that there is nothing to compare.
form_sentinel_of_the_image() {
    [ "$side" = image ] || { echo "refused" && return; }
    how && fresh
    printf 'port 26379\n' >"$volume/x.conf"
    for words in "redis-server x.conf --sentinel" "redis-sentinel x.conf" "valkey-sentinel x.conf"; do
        # shellcheck disable=SC2086 # Each is a word of its own.
        said=$(contain $words 2>&1) && echo "$words: runs"
        [[ $said == *"has no Sentinel"* ]] || echo "$words: does not say why it fails: $said"
    done
    echo "refused"
}
# Runs the health check as the container's user, in its namespaces: it looks at the container's processes.
check_health() {
    local first
    first=$(cat "/proc/$server/task/$server/children")
    nsenter --target "${first% }" --mount --pid chroot "$root" env -i -C /data "${environment[@]}" "${extra[@]}" \
        setpriv "${who[@]}" -- "${health[@]}" 2>&1
}
# Starts words as a container, waits until its health check has this status, and stops it.
healthy() {
    local wanted=$1 tries=0 status
    shift
    rm -f "$place/log"
    contain "$@" >"$place/log" 2>"$place/errors" &
    server=$!
    # Each says something when it has begun.
    until [ -s "$place/log" ] && { status=0 && said=$(check_health) || status=$?; [ "$status" = "$wanted" ]; }; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ] || ! kill -0 "$server" 2>/dev/null; then
            echo "$*: the health check ends with ${status:-nothing}: ${said:-}" && cat "$place/log" "$place/errors"
            break
        fi
        sleep 0.1
    done
    stop >/dev/null
}
# The health check of Redis's image is none, so that each container that serves has to stay healthy here.
form_health_check_of_the_image() {
    [ "$side" = image ] || { echo "alive" && return; }
    how && fresh
    healthy 0 "${command[@]}"
    healthy 0 --requirepass sesame
    healthy 0 --port 7000 --bind 10.99.99.1
    healthy 0 --port 7000 --set-proc-title no --requirepass sesame
    healthy 0 --port 0 --unixsocket /data/s.sock --requirepass sesame
    healthy 0 --replicaof 127.0.0.1 1 --replica-serve-stale-data no
    healthy 0 sh -c 'trap exit TERM; redis-server --port 7001 & wait'
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$volume/key" -out "$volume/cert" -subj /CN=x -days 2 2>/dev/null
    healthy 0 --port 0 --tls-port 7002 --tls-cert-file cert --tls-key-file key --tls-ca-cert-file cert
    # Half a minute of loading, for each check answers within its time.
    start redis-server --save '' --enable-debug-command yes && cli debug populate 30000 >/dev/null && cli save >/dev/null && stop >/dev/null
    healthy 0 --key-load-delay 1000 --save ''
    grep -q 'DB loaded' "$place/log" && echo "the data were loaded before it was asked"
    how --user 999:999 --read-only --drop && fresh 999:999
    healthy 0 --port 7000 --requirepass sesame
    how && fresh
    healthy 1 sh -c 'trap exit TERM; echo begun; sleep 60 & wait'
    [[ $said == "no server of this container answers" ]] || echo "without a server it says $said"
    echo "alive"
}
# The libraries' list and the sizes are ours alone.
form_files_of_the_image() {
    [ "$side" = image ] || { echo "all there" && return; }
    how
    grep -q '"bomFormat": "CycloneDX"' "$root/usr/local/share/sleeve/sbom.cdx.json" || echo "there is no list of libraries"
    for family in redis valkey; do
        for program in server cli benchmark check-rdb check-aof sentinel; do
            [ "$(within readlink -f "/usr/local/bin/$family-$program")" = /usr/local/bin/sleeve ] || echo "no $family-$program"
        done
    done
    [ "$(stat -c '%u:%g' "$image/data")" = 999:999 ] || echo "/data belongs to another"
    for family in sleeve redis valkey; do
        [ "$(within sh -c "id -u $family; getent group $family | cut -d: -f3" | tr '\n' ' ')" = "999 999 " ] ||
            echo "$family is not the server's user"
    done
    echo "all there"
}

# A volume that another server has written, in the image, and the image's volume in that server.
peer() {
    "$1" --dir "$volume" --port 6379 --bind 127.0.0.1 --enable-debug-command yes --save '' ${2:+$2} >"$place/peer.log" 2>&1 &
    server=$!
    local tries=0
    until [ "$(ask 127.0.0.1 PING)" = +PONG ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 400 ] && kill -0 "$server" 2>/dev/null || { cat "$place/peer.log" && return 1; }
        sleep 0.05
    done
}
# Prints the number of keys and the digest of the data.
digest() { echo "$(cli dbsize) keys, $(cli debug digest)"; }
end_peer() {
    cli ${1:-save} >/dev/null
    kill -TERM "$server" && wait "$server" || true
}
volumes() {
    local binary=$1 way=$2 words= before after saved=save
    [ "$side" = image ] || { echo "the same keys" && return; }
    how && fresh
    case "$way" in rdb) ;; aof) words="--appendonly yes" saved=dbsize ;; both) words="--appendonly yes" ;; esac
    peer "$binary" "$words"
    for i in $(seq 40); do
        echo "set string$i $i ex 100000"; echo "set number$i $i"; echo "rpush list$((i % 3)) $i element"
        echo "hset hash$((i % 3)) f$i v$i"; echo "sadd set$((i % 3)) $i"; echo "zadd zset$((i % 3)) $i.5 m$i"
        echo "xadd stream$((i % 3)) $i-1 field $i"; echo "pfadd hll $i"; echo "sadd words w$i"
    done | cli >/dev/null
    before=$(digest)
    end_peer "$saved"
    [ "$way" = rdb ] || [ -d "$volume/appendonlydir" ] || echo "it wrote no AOF"
    start redis-server --enable-debug-command yes $words
    after=$(digest)
    [ "$after" = "$before" ] || echo "the image has $after instead of $before"
    cli set ours 1 >/dev/null
    before=$(digest)
    cli "$saved" >/dev/null
    stop >/dev/null
    peer "$binary" "$words"
    after=$(digest)
    [ "$after" = "$before" ] || echo "in return it has $after instead of $before"
    end_peer "$saved"
    echo "the same keys"
}
for name in REDIS_SERVER REDIS8_SERVER VALKEY_SERVER; do
    for way in rdb aof both; do
        eval "form_volume_of_${name,,}_with_$way() { volumes \"\$$name\" $way; }"
    done
done

failed=0
for form in $(declare -F | sed -n 's/^declare -f form_//p'); do
    name=${form//_/ }
    [[ $name == *"$only"* ]] || continue
    peer=REDIS_SERVER
    case "$form" in volume_of_*) peer=${form#volume_of_} peer=${peer%%_with_*} peer=${peer^^} ;; *_of_the_image) peer=image ;; esac
    if [ -z "${!peer}" ]; then
        echo "skipped $name: $peer is missing, which 'cargo xtask peers' installs" | tee -a "$report"
        continue
    fi
    for side in debian image; do
        volume=$place/volume-$side server=
        (set +e; "form_$form") >"$place/said-$side" 2>&1 || echo "it broke off" >>"$place/said-$side"
    done
    if diff -U 2 --label Debian --label image "$place/said-debian" "$place/said-image" >"$place/differences"; then
        echo "passed $name" | tee -a "$report"
    else
        failed=1
        echo "failed image: $name" | tee -a "$report"
        cat "$place/differences"
    fi
done
exit "$failed"
