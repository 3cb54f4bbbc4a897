# Keeps one podman service: `FOLDER SOCKET PROGRAM ARGUMENT...`. Without a program, ends and removes
# what a keeper left that was killed: `FOLDER SOCKET`.
#
# FOLDER is the TMPDIR of the service; its name is unique. The service is ended when our standard
# input ends, which it does however the one ends that started us.
#
# Why podman is not left to end its RUN itself: it answers SIGTERM by sending it on, once, to the
# process that runs the OCI runtime. That minds the signal only when the RUN has started; before, it
# dies of it and leaves the RUN to go on, or a container that waits to be started. And while no RUN
# goes on, the signal goes nowhere, so that one may begin right after. So we end RUNs ourselves, as
# often as there is one, until podman is gone. They have files of their bundle mounted, and bundles
# lie in FOLDER.
folder=$1
socket=$2
shift 2
name=${folder##*/}
mounts=$(readlink /proc/self/ns/mnt | tr -cd 0-9)

# Ends every process of a container whose bundle is in FOLDER. False if there was none.
end_runs() {
    # The kernel takes long to write a list of mounts, so only those are read that are not ours.
    lists=$(ls -ln /proc/[0-9]*/ns/mnt |
        sed -n "/${mounts:-none}/!s,.* \(/proc/[0-9]*\)/ns/mnt -> .*,\1/mountinfo,p")
    # shellcheck disable=SC2086 # Each word is one path.
    runs=$(grep -lsE " [^ ]*/$name/buildah[0-9]+/[^ ]* /(etc|run)/" $lists /dev/null |
        cut -d / -f 3)
    # shellcheck disable=SC2086 # Each word is one number.
    [ -n "$runs" ] && { kill -KILL $runs || true; }
}

# Ends what works on a bundle in FOLDER: the OCI runtime, and what runs it. False if there was none.
end_runtimes() {
    runtimes=$(ls -ln /proc/[0-9]*/cwd |
        sed -n "s,.* /proc/\([0-9]*\)/cwd -> .*/$name/buildah.*,\1,p")
    # shellcheck disable=SC2086 # Each word is one number.
    [ -n "$runtimes" ] && { kill -KILL $runtimes || true; }
}

# Has the OCI runtime forget the containers it did not get to remove, and their cgroups.
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

# Runs the command; once the standard input ends, asks it to stop, and insists after 10 s.
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
while { end_runs || end_runtimes; } && [ $patience -gt 0 ]; do
    sleep 0.05
    patience=$((patience - 1))
done
forget_containers
# podman mounts over what it has unpacked, and mounts stay where it was killed. Those deepest in FOLDER
# go first; removing would reach through one that stays. A path in the list has its special characters
# as octal numbers.
# shellcheck disable=SC2016 # Its variables are those of the shell that runs it.
remove='cut -d " " -f 5 /proc/self/mountinfo | grep -F "/$1/" | sort -r |
    while read -r point; do umount "$(printf "%b" "$point")"; done
grep -qF "/$1/" /proc/self/mountinfo || rm -rf "$2"'
sh -c "$remove" sh "$name" "$folder"
# Rootless podman mounts in a namespace of its own, and unpacks files of users that only it may remove.
[ ! -e "$folder" ] || [ "$(id -u)" -eq 0 ] ||
    podman unshare sh -c "$remove" sh "$name" "$folder"
rm -f "$socket"
exit $status
