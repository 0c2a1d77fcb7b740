#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Dovetail Authors

# Builds dist/ from page/: uPlot comes from npm at the version that page/package-lock.json pins, and esbuild makes one script and one
# style sheet of it and ours. dist/SOURCES has the digests of what it was made from; a test compares them.
set -euo pipefail
cd "$(dirname "$0")"
npm ci --prefix page --silent --no-audit --no-fund
rm -rf dist
mkdir dist
go tool -modfile=../../go.tools.mod esbuild page/app.js page/app.css --bundle --minify --format=esm --target=es2022 --legal-comments=inline --outdir=dist --log-level=warning
cp page/index.html dist/
(cd page && sha256sum app.css *.js index.html package-lock.json) >dist/SOURCES
