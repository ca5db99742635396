# Sourced by the tests of this folder, before they look at their arguments. Docker where there is a daemon, otherwise
# podman and buildah, as root. Without a registry base images are made with debootstrap. Gives
#   engine ARGS...        docker or podman
#   build_image ARGS...   docker build or buildah build
#   run_limits            arguments of `engine run` that podman needs here
#   base_image            sets BASE to the image to build on, if it is not set and the Dockerfile's own cannot be had
# Everything is kept below build/docker/.
WORK=$ROOT/build/docker
step() { printf '==> [%d s] %s\n' "$SECONDS" "$*"; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
mkdir -p "$WORK"

if docker info >/dev/null 2>&1; then
  IS_DOCKER=1
  engine() { docker "$@"; }
  run_limits=()
  build_image() { docker build "$@"; }
  base_image() { :; }
else
  IS_DOCKER=''
  command -v podman >/dev/null && command -v buildah >/dev/null || fail "needs docker, or podman and buildah"
  ((EUID == 0)) || fail "no Docker daemon answers this user, and podman needs root here"
  # A kernel with both kinds of cgroups confuses crun: hide the second one from this script alone.
  if [[ -z ${SPARSEAGG_DOCKER_TEST_INNER:-} ]]; then
    export SPARSEAGG_DOCKER_TEST_INNER=1
    exec unshare -m bash "$0" "$@"
  fi
  umount /sys/fs/cgroup/unified 2>/dev/null || true
  storage=(--storage-driver overlay --root "$WORK/storage" --runroot "$WORK/run")
  # Timers of health checks are systemd's, which need not run here.
  engine() { podman "${storage[@]}" --cgroup-manager cgroupfs "$@" 2> >(grep -v 'systemd connection' >&2); }
  files=$(ulimit -Hn)
  run_limits=(--ulimit "nofile=$files:$files" --ulimit nproc=4096:4096 --cgroups disabled)
  # The compiler's cache of this checkout, where there is one, saves most of a build.
  build_volumes=()
  [[ -d $ROOT/build/ccache ]] && build_volumes=(--volume "$(readlink -f "$ROOT/build/ccache"):/src/build/ccache")
  build_image() {
    buildah "${storage[@]}" build --isolation chroot --format docker --pull-never --layers "${build_volumes[@]}" "$@"
  }
  base_image() {
    [[ -z $BASE ]] || return 0
    BASE=localhost/debian:bookworm
    engine image exists "$BASE" && return
    step "Making the base image with debootstrap"
    rm -rf "$WORK/rootfs"
    debootstrap --variant=minbase bookworm "$WORK/rootfs" "${MIRROR:-http://deb.debian.org/debian}" >"$WORK/debootstrap.log"
    tar -C "$WORK/rootfs" -cf - . | engine import - "$BASE" >/dev/null
    rm -rf "$WORK/rootfs"
  }
fi
