#!/bin/sh
# Starts the program of a container. A first word that is an option or a configuration file is one for the server.
set -e

case "${1:-}" in
    -* | *.conf) set -- redis-server "$@" ;;
esac

case "${1##*/}" in
    redis-server | valkey-server)
        # Without the capability to change the user, such as with `cap_drop: ALL`, the server stays who it is.
        if [ "$(id -u)" = 0 ] && setpriv --reuid=sleeve --regid=sleeve --clear-groups -- true 2>/dev/null; then
            # A volume that another user made is given to the server's user. A file that cannot be given, such as a
            # configuration that is mounted read-only, stays as it is. Files outside of the working directory are root's.
            find . \! -user sleeve -exec chown -h sleeve:sleeve {} + 2>/dev/null || true
            exec setpriv --reuid=sleeve --regid=sleeve --clear-groups -- "$0" "$@"
        fi
        # Data are nobody else's, unless the one who starts the container has chosen a mask.
        if [ "$(umask)" = 0022 ]; then
            umask 0077
        fi
        ;;
esac

exec "$@"
