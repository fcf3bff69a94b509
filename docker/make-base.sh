#!/usr/bin/env bash
# Makes the base image from Debian's own packages, for places that reach no image registry.
#
#   docker/make-base.sh [IMAGE]          (default: accel-lab-base:bookworm; `make docker-base` does the same)
#
# SUITE, MIRROR   the Debian release and where its packages come from (MIRROR also for apt inside the image)
# TARBALL         keep the packed base there; if it is there already it is only imported, in seconds
# DOCKER          the docker client
#
# It needs root (debootstrap does), and takes a minute or three and 600 MB. What is inside: Python with venv and
# headers, g++ (Inductor compiles its kernels with both), and CA certificates.
set -euo pipefail

readonly IMAGE="${1:-accel-lab-base:bookworm}"
readonly SUITE="${SUITE:-bookworm}" MIRROR="${MIRROR:-http://deb.debian.org/debian}" DOCKER="${DOCKER:-docker}"
readonly PACKAGES="python3,python3-venv,python3-dev,g++,ca-certificates"
readonly LABEL="accel-lab.base=debian-$SUITE"
tarball="${TARBALL:-}"

fail() { echo "make-base: $*" >&2; exit 1; }

command -v "$DOCKER" >/dev/null || fail "no docker client ($DOCKER)"
"$DOCKER" version >/dev/null 2>&1 || fail "no docker daemon answers"

make_tarball() {
  [[ "$(id -u)" == 0 ]] || fail "debootstrap needs root: run as root, or name a base image of yours with BASE="
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  local root
  root="$(mktemp -d)"
  # Mounts of the packages' own scripts are gone when debootstrap has ended; one file system only, all the same.
  trap 'rm -rf --one-file-system -- "$root"' RETURN
  # Ends here, not with an image that lacks half of its packages.
  debootstrap --variant=minbase --include="$PACKAGES" "$SUITE" "$root" "$MIRROR" >"$root.log" 2>&1 ||
    { tail -n 5 "$root.log" >&2; fail "debootstrap failed (its log: $root.log)"; }
  rm -rf -- "$root.log" "$root"/var/cache/apt/* "$root"/var/lib/apt/lists/* "$root"/var/log/* \
    "$root"/usr/share/{doc,man,info,locale}/* "$root"/tmp/* "$root"/debootstrap
  # Written beside and renamed: what is there under its name is whole.
  tar --create --gzip --numeric-owner --directory "$root" --file "$1.part" .
  mv -- "$1.part" "$1"
}

if [[ -z "$tarball" ]]; then
  folder="$(mktemp -d)"
  trap 'rm -rf -- "$folder"' EXIT
  tarball="$folder/base.tar.gz"
fi
[[ -s "$tarball" ]] || make_tarball "$tarball"
"$DOCKER" import --change "LABEL $LABEL" --change 'ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin' \
  --change 'CMD ["python3"]' "$tarball" "$IMAGE" >/dev/null
echo "$IMAGE: $("$DOCKER" image inspect --format '{{.Id}} {{.Size}} bytes' "$IMAGE")"
