#!/bin/sh
# Installs, removes and purges the packages: trial.sh SLEEVE.deb SLEEVE-REDIS.deb
#
# All of it happens on a copy of this machine's files, kept in memory, that ends with this script: an overlay in a mount
# namespace, with a network of its own. Needs root and a kernel that allows both; `cargo xtask package --trial` runs it.
set -eu

if [ "${3:-}" != inside ]; then
    place=$(mktemp -d)
    status=0
    unshare --mount --net --pid --fork --kill-child "$0" "$1" "$2" inside "$place" || status=$?
    rmdir "$place"
    exit "$status"
fi

place=$4
repository=$(realpath "$(dirname "$0")/../..")
package=$(realpath "$1")
links=$(realpath "$2")
mount -t tmpfs trial "$place"
# The copy has what is on this disk, not what is mounted on it.
mkdir "$place/upper" "$place/work" "$place/root"
mount -t overlay -o "lowerdir=/,upperdir=$place/upper,workdir=$place/work" trial "$place/root"
root=$place/root
mkdir -p "$root/proc" "$root/dev"
mount -t proc proc "$root/proc"
mkdir -p "$root/run" "$root/tmp"
mount -t tmpfs run "$root/run"
mount -t tmpfs tmp "$root/tmp"
for device in "null c 1 3" "urandom c 1 9"; do
    set -- $device
    [ -e "$root/dev/$1" ] || mknod "$root/dev/$1" "$2" "$3" "$4"
done
cp "$package" "$root/tmp/sleeve.deb"
cp "$links" "$root/tmp/sleeve-redis.deb"
in_copy() { chroot "$root" env DEBIAN_FRONTEND=noninteractive PATH="${faked:-}/usr/sbin:/usr/bin:/sbin:/bin" "$@"; }
fail() { echo "trial: $*" >&2; exit 1; }
link=$root/etc/systemd/system/multi-user.target.wants/sleeve.service
dangling() { find "$root/etc" "$root/usr/share/doc" "$root/var/lib/systemd" -xdev -type l -printf '%p %l\n' | grep -i sleeve || true; }
gone() {
    for path in etc/sleeve var/lib/sleeve var/log/sleeve etc/logrotate.d/sleeve usr/share/doc/sleeve usr/bin/sleeve \
        var/lib/systemd/deb-systemd-helper-enabled/sleeve.service.dsh-also; do
        [ ! -e "$root/$path" ] || fail "$path is left after the purge"
    done
    [ -z "$(dangling)" ] || fail "links are left: $(dangling)"
}
in_copy dpkg --purge sleeve-redis sleeve >/dev/null 2>&1 || true
# Data of this machine's own servers would wait to be moved.
rm -rf "$root/var/lib/redis" "$root/var/lib/valkey"

echo "trial: where the port is free"
in_copy dpkg --no-triggers -i /tmp/sleeve.deb >/dev/null
[ -L "$link" ] || fail "the unit is not enabled"
[ "$(in_copy stat -c '%U %a' /etc/sleeve/sleeve.conf)" = "sleeve 640" ] || fail "sleeve.conf is not the server's own"
in_copy sleeve serve --check /etc/sleeve/sleeve.conf >/dev/null || fail "a server would not start"
in_copy dpkg -r sleeve >/dev/null
[ -z "$(dangling)" ] || fail "links are left after the removal: $(dangling)"
[ -e "$root/etc/sleeve/sleeve.conf" ] || fail "the configuration went with the removal"
in_copy dpkg --no-triggers -i /tmp/sleeve.deb >/dev/null
[ -L "$link" ] || fail "the unit is not enabled after it was removed and installed again"
rm "$link"
in_copy dpkg -r sleeve >/dev/null
in_copy dpkg --no-triggers -i /tmp/sleeve.deb >/dev/null
[ ! -L "$link" ] || fail "the unit is enabled although the administrator had disabled it"
mkdir -p "$root/var/lib/sleeve/appendonlydir"
in_copy dpkg -P sleeve >/dev/null 2>&1
[ -d "$root/var/lib/sleeve/appendonlydir" ] || fail "the data went with the purge"
rm -r "$root/var/lib/sleeve"
gone

echo "trial: under the names of Redis's and Valkey's programs"
in_copy dpkg --no-triggers -i /tmp/sleeve.deb >/dev/null
# What the removal of redis-server has left: its name is masked, and a link that enabled it leads nowhere.
mkdir -p "$root/etc/systemd/system/multi-user.target.wants" "$root/var/lib/systemd/deb-systemd-helper-masked"
ln -sf /lib/systemd/system/redis-server.service "$root/etc/systemd/system/multi-user.target.wants/redis-server.service"
ln -sf /dev/null "$root/etc/systemd/system/redis-server.service"
: >"$root/var/lib/systemd/deb-systemd-helper-masked/redis-server.service"
# Where Redis's packages are installed, this one takes their place.
said=$(in_copy dpkg --no-triggers -i /tmp/sleeve-redis.deb 2>&1) || fail "the installation fails: $said"
for name in redis-server redis-tools valkey-server valkey-tools; do
    if in_copy dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed; then
        fail "$name is still installed"
    fi
done
unit=$root/etc/systemd/system/redis-server.service
[ ! -L "$unit" ] || fail "redis-server.service is masked"
[ ! -L "$root/etc/systemd/system/multi-user.target.wants/redis-server.service" ] || fail "redis-server.service is enabled twice"
for name in redis-server redis valkey-server; do
    [ "$root/lib/systemd/system/$name.service" -ef "$root/lib/systemd/system/sleeve.service" ] || fail "$name.service is not Sleeve's"
done
version=$(in_copy sleeve --version)
for family in redis valkey; do
    for program in server cli benchmark check-rdb check-aof sentinel; do
        [ "$(in_copy readlink -f "/usr/bin/$family-$program")" = /usr/bin/sleeve ] || fail "$family-$program is not Sleeve's"
        [ -e "$root/usr/share/man/man1/$family-$program.1.gz" ] || fail "$family-$program has no man page"
    done
    in_copy "$family-server" --version | grep -q '^Redis server v=.* sha=' || fail "$family-server is no server"
    in_copy "$family-cli" --version | grep -q "^redis-cli .*(${version})\$" || fail "$family-cli is no client"
    in_copy "$family-benchmark" --version | grep -q "^redis-benchmark .*(${version})\$" || fail "$family-benchmark is no load generator"
    for kind in rdb aof; do
        status=0
        in_copy "$family-check-$kind" >/dev/null 2>&1 || status=$?
        [ "$status" = 1 ] || fail "$family-check-$kind without a file ends with $status"
    done
    said=$(in_copy "$family-sentinel" x.conf 2>&1) && fail "$family-sentinel runs"
    echo "$said" | grep -q 'has no Sentinel' || fail "$family-sentinel does not say why it fails: $said"
done
in_copy dpkg -P sleeve-redis >/dev/null
for family in redis valkey; do
    [ -z "$(find "$root/usr/bin" "$root/lib/systemd/system" -name "$family*")" ] || fail "names of $family are left after the purge"
done
in_copy dpkg -P sleeve >/dev/null 2>&1
gone

echo "trial: where another server has the port"
dpkg-deb --fsys-tarfile "$root/tmp/sleeve.deb" | tar -x -O ./usr/bin/sleeve >"$root/tmp/other"
chmod 755 "$root/tmp/other"
in_copy /tmp/other serve --port 6379 --bind 0.0.0.0 --save '' --dir /tmp >"$root/tmp/other.log" &
other=$!
tries=0
until grep -q 'eady to accept' "$root/tmp/other.log"; do
    tries=$((tries + 1))
    [ "$tries" -lt 600 ] || fail "the other server does not start: $(cat "$root/tmp/other.log")"
    sleep 0.1
done
# What a machine with systemd has, whose systemctl would fail.
mkdir -p "$root/run/systemd/system" "$root/tmp/faked"
printf '#!/bin/sh\nexit 1\n' >"$root/tmp/faked/systemctl"
cp "$root/tmp/faked/systemctl" "$root/tmp/faked/deb-systemd-invoke"
chmod 755 "$root/tmp/faked/systemctl" "$root/tmp/faked/deb-systemd-invoke"
faked=/tmp/faked:
said=$(in_copy dpkg --no-triggers -i /tmp/sleeve.deb 2>&1) || fail "the installation fails: $said"
echo "$said" | grep -q 'another server listens on port 6379' || fail "the taken port is not named: $said"
[ ! -L "$link" ] || fail "the unit is enabled although its port is taken"
said=$(in_copy dpkg --no-triggers -i /tmp/sleeve.deb 2>&1) || fail "the upgrade fails: $said"
[ ! -L "$link" ] || fail "an upgrade enables the unit"
in_copy dpkg -P sleeve >/dev/null 2>&1 || fail "the purge fails"
gone

kill "$(sed -n 's/.*PID: \([0-9]*\)$/\1/p' "$root/tmp/other.log")"
wait "$other" || fail "the other server ends with $?"
faked=
rm -r "$root/run/systemd"

echo "trial: where data of Redis wait to be moved"
mkdir -p "$root/etc/redis" "$root/var/lib/redis"
[ -e "$root/etc/redis/redis.conf" ] || cat >"$root/etc/redis/redis.conf" <<CONFIGURATION
bind 127.0.0.1 -::1
protected-mode yes
port 6379
daemonize yes
pidfile /run/redis/redis-server.pid
logfile /var/log/redis/redis-server.log
always-show-logo no
dbfilename dump.rdb
dir /var/lib/redis
CONFIGURATION
echo 'requirepass sesame' >>"$root/etc/redis/redis.conf"
echo REDIS >"$root/var/lib/redis/dump.rdb"
said=$(in_copy dpkg --no-triggers -i /tmp/sleeve.deb 2>&1) || fail "the installation fails: $said"
echo "$said" | grep -q '/var/lib/redis has data, so sleeve.service is neither started nor enabled' || fail "the data are not named: $said"
echo "$said" | grep -q 'systemctl enable --now sleeve' || fail "the next step is not named: $said"
[ ! -L "$link" ] || fail "the unit is enabled although data wait to be moved"
said=$(in_copy dpkg --no-triggers -i /tmp/sleeve.deb 2>&1) || fail "the upgrade fails: $said"
[ ! -L "$link" ] || fail "an upgrade enables the unit although data wait to be moved"
# The lines of the documents that copy the configuration and check it.
sed -n '/^sed /,/^runuser /p' "$repository/docs/deployment.md" >"$root/tmp/steps"
[ "$(wc -l <"$root/tmp/steps")" = 3 ] || fail "docs/deployment.md has no steps"
# The unit makes the folder of the pid file.
mkdir "$root/run/sleeve" && in_copy chown sleeve: /run/sleeve
said=$(in_copy sh -e /tmp/steps 2>&1) || fail "the steps of the documents fail: $said"
echo "$said" | grep -q 'warning' && fail "the copied configuration is warned of: $said"
echo "$said" | grep -q 'snapshots in /var/lib/sleeve/dump.rdb' || fail "the data are looked for elsewhere: $said"
said=$(in_copy runuser -u sleeve -- sleeve serve --check --dir /usr/share --appendonly yes 2>&1) && fail "an unwritable folder is accepted: $said"
echo "$said" | grep -q "The AOF's folder '/usr/share/appendonlydir' cannot be written" || fail "an unwritable folder is not named: $said"
grep -q '^requirepass sesame' "$root/etc/sleeve/sleeve.conf" || fail "a line was lost"
if grep -v '^#' "$root/etc/sleeve/sleeve.conf" | grep 'redis/'; then fail "a folder of Redis is left"; fi
[ "$(in_copy stat -c '%U %a' /etc/sleeve/sleeve.conf)" = "sleeve 640" ] || fail "the copied sleeve.conf is not the server's own"
in_copy dpkg -P sleeve >/dev/null 2>&1 || fail "the purge fails"
gone
# Without the configuration, or with data of this server's own, nothing waits.
mkdir "$root/var/lib/sleeve" && : >"$root/var/lib/sleeve/dump.rdb"
in_copy dpkg --no-triggers -i /tmp/sleeve.deb >/dev/null 2>&1
[ -L "$link" ] || fail "the unit is not enabled although there are data of its own"
in_copy dpkg -P sleeve >/dev/null 2>&1 || fail "the purge fails"
rm -r "$root/var/lib/sleeve" "$root/var/lib/redis"
gone

echo "trial: where the unit cannot be started"
mkdir -p "$root/run/systemd/system"
faked=/tmp/faked:
# A configuration that the administrator has brought, with a port that is free.
mkdir "$root/etc/sleeve"
printf 'port 6380\n' >"$root/etc/sleeve/sleeve.conf"
said=$(in_copy dpkg --no-triggers --force-confold -i /tmp/sleeve.deb 2>&1) || fail "the installation fails: $said"
echo "$said" | grep -q 'could not be started' || fail "the unit's failure is not named: $said"
in_copy dpkg -P sleeve >/dev/null 2>&1 || fail "the purge fails"
gone
echo "trial: well"
