#!/bin/sh
# Builds the API server of Kubernetes from its published Go modules, for tests/cloud/kubernetes_test.ts (10 minutes on
# two cores). Then, with an etcd: SVC_TEST_KUBE_APISERVER=FOLDER/kube-apiserver SVC_TEST_ETCD=/path/to/etcd deno test …
# Use: build_apiserver.sh FOLDER
set -eu
version=1.31.4
mkdir -p "$1"
cd "$1"
cat > main.go <<'END'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
END
# The module replaces its own parts by folders that are not in it; they are published with versions of their own.
module=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
{
  printf 'module apiserver\n\ngo 1.22.0\n\nrequire k8s.io/kubernetes v%s\n\nreplace (\n' "$version"
  sed -n 's/^[[:space:]]*\(k8s.io\/[a-z-]*\) => .*/\1/p' "$module" | while read -r part; do
    printf '\t%s => %s v0.%s\n' "$part" "$part" "${version#1.}"
  done
  printf ')\n'
} > go.mod
GOFLAGS=-mod=mod go mod tidy -e
GOFLAGS=-mod=mod go build -ldflags "-s -w" -o kube-apiserver .
