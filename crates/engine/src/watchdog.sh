# Runs one podman service: `FOLDER SOCKET PROGRAM ARGUMENT...`. Without a program, ends and removes
# what a killed watchdog left: `FOLDER SOCKET`.
#
# FOLDER is the TMPDIR of the service; its name is unique. The service ends when standard input
# closes, which happens however the parent process ends.
#
# podman cannot be relied on to stop its RUN. On SIGTERM, it forwards the signal once to the process
# that runs the OCI runtime. If the RUN has not started yet, that process dies and leaves a RUN that
# continues, or a container that was never started. If there is no RUN at that moment, the signal
# is lost and the next RUN may start. So the watchdog kills RUNs itself, repeatedly, until podman
# has exited. It recognises them by their mounts: files of their bundles, which are in FOLDER.
folder=$1
socket=$2
shift 2
name=${folder##*/}
mounts=$(readlink /proc/self/ns/mnt | tr -cd 0-9)

# Ends every process of the containers whose bundles are in FOLDER. Fails if there is none.
end_runs() {
    # Reading a list of mounts is slow, so lists of this mount namespace are skipped.
    lists=$(ls -ln /proc/[0-9]*/ns/mnt |
        sed -n "/${mounts:-none}/!s,.* \(/proc/[0-9]*\)/ns/mnt -> .*,\1/mountinfo,p")
    # shellcheck disable=SC2086 # Each word is one path.
    runs=$(grep -lsE " [^ ]*/$name/buildah[0-9]+/[^ ]* /(etc|run)/" $lists /dev/null |
        cut -d / -f 3)
    # shellcheck disable=SC2086 # Each word is one number.
    [ -n "$runs" ] && { kill -KILL $runs || true; }
}

# Ends the OCI runtimes that work on a bundle in FOLDER, and their parents. Fails if there is none.
end_runtimes() {
    runtimes=$(ls -ln /proc/[0-9]*/cwd |
        sed -n "s,.* /proc/\([0-9]*\)/cwd -> .*/$name/buildah.*,\1,p")
    # shellcheck disable=SC2086 # Each word is one number.
    [ -n "$runtimes" ] && { kill -KILL $runtimes || true; }
}

# Ends the services on SOCKET. Rootless podman runs its service in a second process; if the first one
# ends early, it cannot pass the signal on. Fails if there is none.
end_services() {
    services=
    for file in $(grep -lsF "unix://$socket" /proc/[0-9]*/cmdline); do
        # This shell and `grep`, which has ended, have the socket on their command lines too.
        name_of_program=$(tr '\0' '\n' <"$file" | head -n 1)
        [ "${name_of_program:-sh}" = sh ] && continue
        process=${file%/cmdline}
        services="$services ${process#/proc/}"
    done
    # shellcheck disable=SC2086 # Each word is one number.
    [ -n "$services" ] && { kill -KILL $services || true; }
}

# Makes the OCI runtime delete the containers that it could not remove, and their cgroups.
forget_containers() {
    user=${XDG_RUNTIME_DIR:-/run}
    states=$(grep -lsF "/$name/buildah" /run/runc/buildah-*/state.json \
        "$user"/runc/buildah-*/state.json /run/crun/buildah-*/status \
        "$user"/crun/buildah-*/status /dev/null)
    for state in $states; do
        container=${state%/*}
        runtime=${container%/*}
        "${runtime##*/}" delete --force "${container##*/}"
    done
}

# Runs the command. When standard input closes, sends SIGTERM, and SIGKILL after 10 s.
run() {
    exec 3<&0
    "$@" </dev/null >/dev/null 3<&- &
    podman=$!
    {
        read -r _ <&3
        exec 3<&-
        end_runs
        kill -TERM $podman
        until=$(($(date +%s) + 10))
        tenths=1
        while kill -0 $podman; do
            end_runs
            [ "$(date +%s)" -lt $until ] || kill -KILL $podman
            sleep 0.$tenths
            [ $tenths -eq 9 ] || tenths=$((tenths + 1))
        done
    } >/dev/null 2>&1 &
    reader=$!
    exec 3<&-
    wait $podman
    status=$?
    kill $reader
}

status=0
[ $# -eq 0 ] || run "$@"
exec 2>/dev/null
patience=200
while { end_services || end_runs || end_runtimes; } && [ $patience -gt 0 ]; do
    sleep 0.05
    patience=$((patience - 1))
done
forget_containers
# podman mounts onto the files that it has unpacked, and the mounts stay if it is killed. The deepest
# mounts in FOLDER are removed first; `rm` would delete files through a remaining mount. Special
# characters in the listed paths are written as octal escapes.
# shellcheck disable=SC2016 # The variables belong to the inner shell.
remove='cut -d " " -f 5 /proc/self/mountinfo | grep -F "/$1/" | sort -r |
    while read -r point; do umount "$(printf "%b" "$point")"; done
grep -qF "/$1/" /proc/self/mountinfo || rm -rf "$2"'
sh -c "$remove" sh "$name" "$folder"
# Rootless podman mounts in its own namespace, and unpacks files that only podman has the rights to
# remove.
[ ! -e "$folder" ] || [ "$(id -u)" -eq 0 ] ||
    podman unshare sh -c "$remove" sh "$name" "$folder"
rm -f "$socket"
exit $status
