# Functions for the scripts in table.toml.

# A project with one track, `mine`, and these lines in its table.
track() {
  printf '%s\n' 'schema = 1' 'gpu = "gfx1151"' '[mine]' 'title = "t"' 'description = "d"' "$@" \
    > versions/tracks.toml
}
# The same with a stage, whose table has these lines.
stage() {
  printf 'ARG BASE\nFROM ${BASE}\nRUN true\n' > dockerfiles/mine.Dockerfile
  track 'packages = "debian"' '[[mine.stage]]' 'name = "mine"' \
    'dockerfile = "dockerfiles/mine.Dockerfile"' "$@"
}
# Pins: these lines, and `code`, which is correct.
pins() {
  printf '%s\n' 'schema = 1' 'source-date-epoch = 1795132800' '[source.code]' \
    'url = "https://git.example.org/code"' 'version = "1.0"' "commit = \"$HEX40\"" "$@" \
    > versions/versions.toml
}
# A configuration of the user.
config() {
  mkdir -p home/.config/build-pipeline
  printf '%s\n' 'schema = 1' "$@" > home/.config/build-pipeline/config.toml
}
# Track `locked-spoof` is based on an image at this host.
base_at() { sed -i "s|docker.io/rocm/vllm-dev\"|$1/own/base\"|" versions/versions.toml; }
# A command for which a folder is read-only.
with_readonly() {
  mounts='mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
  unshare --map-root-user --mount sh -c "$mounts" "$@"
}
