#!/usr/bin/env bash
# Brings the files of this folder anew: needs npm. Versions are those of README.md.
set -euo pipefail
cd "$(dirname "$0")"
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
take() { # take PACKAGE VERSION LICENCE NAME FILE...: FILEs of the package, and its licence as NAME.LICENSE
    npm pack --silent --pack-destination "$folder" "$1@$2" > /dev/null
    tar -xzf "$folder"/*.tgz -C "$folder"
    cp "$folder/package/$3" "$4.LICENSE"
    for file in "${@:5}"; do cp "$folder/package/$file" .; done
    rm -rf "$folder"/*
}
take elkjs 0.12.1 LICENSE.md elkjs lib/elk-worker.min.js lib/elk-api.js
take d3 7.9.2 LICENSE d3 dist/d3.min.js
take @observablehq/plot 0.6.17 LICENSE plot dist/plot.umd.min.js
xz -9e -f elk-worker.min.js d3.min.js plot.umd.min.js # the folder is 0.5 MB instead of 2
chmod 644 ./*.js ./*.xz ./*.LICENSE
