#!/bin/sh
# Starts the program of a container. A first word that is an option or a configuration file is one for the server.
set -e

case "${1:-}" in
    -* | *.conf) set -- redis-server "$@" ;;
esac

case "${1##*/}" in
    redis-server | valkey-server)
        if [ "$(id -u)" = 0 ]; then
            # A volume that another user made is given to the server's user. Other files of root stay root's.
            find . \! -user sleeve -exec chown sleeve:sleeve {} +
            exec setpriv --reuid=sleeve --regid=sleeve --clear-groups -- "$0" "$@"
        fi
        # Data are nobody else's, unless the one who starts the container has chosen a mask.
        if [ "$(umask)" = 0022 ]; then
            umask 0077
        fi
        ;;
esac

exec "$@"
