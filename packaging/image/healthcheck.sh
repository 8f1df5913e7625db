#!/bin/bash
# Tells whether the server of this container answers: status 0 after any reply, also NOAUTH, LOADING, MASTERDOWN or BUSY. Without
# a password it cannot know more, and a restart would help against none of these.
#
# The server's title names its first address, whatever configuration it has. Without a title (`set-proc-title no`) its user's
# listening ports count. A port for TLS answers a request in plain text by an alert, which is a reply as well.

replies() { # HOST PORT
    { exec 3<>"/dev/tcp/$1/$2" && printf 'PING\r\n' >&3; } 2>/dev/null || return
    IFS= read -r -t 3 -n 1 _ <&3
    # More than 128 is a timeout. A connection that the server closes is a reply too.
    [ $? -le 128 ]
}

# Prints the ports on which processes of a user listen.
ports_of() {
    local line
    while read -r -a line; do
        [ "${line[3]}" != 0A ] || [ "${line[7]}" != "$1" ] || echo $((16#${line[1]##*:}))
    done < <(cat /proc/net/tcp /proc/net/tcp6 2>/dev/null)
}

for process in /proc/[0-9]*; do
    case "$(cat "$process/comm" 2>/dev/null)" in redis-server | valkey-server | sleeve) ;; *) continue ;; esac
    title=
    IFS= read -r -d '' title 2>/dev/null <"$process/cmdline"
    case "$title" in
        *" unixsocket:"*)
            path=${title#* unixsocket:} path=${path% } path=${path%" [cluster]"}
            redis-cli -s "$path" ping >/dev/null 2>&1 && exit 0
            ;;
        *" "*:[0-9]*)
            read -r _ address _ <<<"$title"
            host=${address%:*} host=${host#-}
            case "$host" in "*" | 0.0.0.0 | "::*" | ::) host=127.0.0.1 ;; esac
            replies "$host" "${address##*:}" && exit 0
            ;;
        *)
            for port in $(ports_of "$(stat -c %u "$process")"); do
                replies 127.0.0.1 "$port" && exit 0
            done
            ;;
    esac
    echo "process ${process#/proc/} does not answer: $title" >&2
done
echo "no server of this container answers" >&2
exit 1
