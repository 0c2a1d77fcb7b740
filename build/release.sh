#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# release.sh VERSION builds the release artifacts in bin/release and does not publish them: archives of the binary with checksums, the
# container image (OCI layout, with SBOM and provenance), the chart, and the krew manifest. VERSION is a semantic version without a leading
# v. Archives of the same commit are identical byte for byte. PLATFORMS overrides the list of platforms.
set -euo pipefail
version=${1:-}
if [[ ! $version =~ ^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
  echo "usage: build/release.sh VERSION, for example 0.2.0 or 0.2.0-rc.1" >&2
  exit 2
fi
cd "$(dirname "$0")/.."
out=bin/release
rm -rf "$out"
mkdir -p "$out"
stamp=$(git log -1 --format=%ct)

for platform in ${PLATFORMS:-linux/amd64 linux/arm64 darwin/amd64 darwin/arm64}; do
  os=${platform%/*} arch=${platform#*/}
  dir=$out/$os-$arch
  mkdir "$dir"
  GOOS=$os GOARCH=$arch bash build/progress.sh "dovetail for $platform" . -ldflags "-s -w" -o "$dir/kubectl-dovetail" ./cmd/dovetail
  cp LICENSE "$dir"
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$stamp" -C "$dir" -cf - kubectl-dovetail LICENSE | gzip -n9 >"$out/dovetail-$os-$arch.tar.gz"
  rm -r "$dir"
done
(cd "$out" && sha256sum dovetail-*.tar.gz >checksums.txt)

cp build/krew/dovetail.yaml "$out/krew.yaml"
sed -i "s/v0\.0\.0/v$version/" "$out/krew.yaml"
while read -r sum archive; do
  # The line after the archive's uri contains its checksum.
  sed -i "/\/${archive//./\\.}\$/{n;s/sha256: \".*\"/sha256: \"$sum\"/}" "$out/krew.yaml"
done <"$out/checksums.txt"

go -C test/chart tool helm package "$PWD/charts/dovetail" --version "$version" --app-version "$version" --destination "$PWD/$out" >/dev/null
# Image paths are relative to the root of the repository.
go -C build/image run . -version "$version" -out "$out/image" ${REPOSITORY:+-repository "$REPOSITORY"} ${IMAGE_PLATFORMS:+-platforms "$IMAGE_PLATFORMS"}
(cd "$out" && sha256sum dovetail-*.tgz >>checksums.txt && sha256sum --quiet -c checksums.txt)
echo "release $version is in $out:"
ls -1 "$out"
