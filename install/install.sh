#!/bin/sh
# Installs svc-agent as a systemd service; svc-agent then installs and runs svc-server.
#
#   curl -fsSL http://CLOUD/install.sh | SVC_API_KEY_ID=… SVC_API_KEY=… SVC_PART_ID=… \
#     sudo --preserve-env=SVC_API_KEY_ID,SVC_API_KEY,SVC_PART_ID sh
#
# Without the three variables, and without credentials in /etc/svc.json, this script installs the agent all the same;
# the agent then waits for credentials.
#
#   SVC_ROOT_URL   the control plane; by default the control plane that served this script
#   SVC_AGENT_URL  the address of an svc-agent executable, in place of the release
#   SVC_VERSION    the version to install; by default stable
#   SVC_SUMS       a file SHA256SUMS of the project with SHA256SUMS.sig beside it: the agent must be in it
#   SVC_CA_FILE    a file of further authorities (PEM) whose certificates this device trusts, such as /ca.pem of svc-cloud;
#                  by default the authority of the control plane that served this script over TLS, and a file of before
#   SVC_UNSIGNED=1 installs without the keys of releases, if the control plane has none
#   FORCE=1 (-f)   replaces credentials that exist
# HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, SOCKS_PROXY and NO_PROXY count here, and go to /etc/default/svc-agent for the agent.
#   --aix-install  has no effect; installers of svc-server take this option
set -eu

served_from='@ROOT_URL@'
root=${SVC_ROOT_URL:-$served_from}
# The authority of the control plane that served this script, if it serves with its own certificate.
served_authority='@AUTHORITY@'
authorities=/etc/svc-ca.pem
environment=/etc/default/svc-agent
# The public half of the project's key, which signs SHA256SUMS.
project_key='huKUPMLuDP/3KAkKfA3tYA1FGPJNiKZt3vKSsO+JRSc='
credentials=/etc/svc.json
keys=/opt/svc/etc/release_keys.json
force=${FORCE:-}
# Without a byte for this long, a download is tried again.
stall_s=60

fail() {
  echo "install.sh: $*" >&2
  exit 1
}

main() {
  for word in "$@"; do
    case $word in
      -f | --force) force=1 ;;
      --aix-install) ;;
      *) fail "unknown option \"$word\", wanted -f or nothing" ;;
    esac
  done
  case $root in
    http://* | https://*) ;;
    *) fail "the address of the control plane is missing; set SVC_ROOT_URL=https://…" ;;
  esac
  [ "$(uname -s)" = Linux ] || fail "this script is for Linux; use install.ps1 on Windows"
  [ "$(id -u)" = 0 ] || fail "only root can install a service: run it with sudo"
  command -v systemctl >/dev/null 2>&1 && systemctl --version >/dev/null 2>&1 ||
    fail "this system has no systemd; run svc-agent --dev-mode yourself instead"
  case $(uname -m) in
    x86_64 | amd64) platform=linux-amd64 loader=/lib64/ld-linux-x86-64.so.2 ;;
    aarch64 | arm64) platform=linux-arm64 loader=/lib/ld-linux-aarch64.so.1 ;;
    *) fail "there is no svc-agent for $(uname -m), only for x86_64 and aarch64" ;;
  esac
  [ -e "$loader" ] || fail "this system cannot run 64-bit programs: $loader is missing"
  command -v sha256sum >/dev/null 2>&1 || fail "the program sha256sum is missing"
  folder=$(mktemp -d)
  trap 'rm -rf "$folder"' EXIT
  # A shell goes on after what it does for a signal.
  trap 'exit 129' HUP
  trap 'exit 130' INT
  trap 'exit 143' TERM
  use_proxies
  use_authorities
  fetch_credentials
  fetch_agent
  pin_keys
  keep_authorities
  keep_proxies
  "$folder/svc-agent" --install --config "$credentials"
  systemctl restart svc-agent
  echo "svc-agent runs; see: svc-agent status (in /opt/svc/bin), journalctl -u svc-agent -f"
}

# get URL FILE [HEADER…]; headers go into a file, because every user of this computer sees the arguments of programs.
# They are for this address alone: a redirection would take them along.
get() {
  url=$1 file=$2
  shift 2
  if [ $# -gt 0 ]; then hops=0; else hops=20; fi
  if command -v curl >/dev/null 2>&1; then
    write_headers 'header = "%s"\n' "$@"
    printf 'connect-timeout = 30\nspeed-limit = 1\nspeed-time = %s\n' "$stall_s" >>"$folder/headers"
    [ ! -s "$folder/roots" ] || printf 'cacert = "%s"\n' "$folder/roots" >>"$folder/headers"
    curl --config "$folder/headers" -fsSL --max-redirs $hops --retry 5 --retry-delay 2 -o "$file" "$url"
  elif wget --version 2>/dev/null | grep -q GNU; then
    # BusyBox's wget takes no headers from a file, and follows redirections with them.
    write_headers 'header = %s\n' "$@"
    printf 'connect_timeout = 30\nread_timeout = %s\n' "$stall_s" >>"$folder/headers"
    [ ! -s "$folder/roots" ] || printf 'ca_certificate = %s\n' "$folder/roots" >>"$folder/headers"
    wget --config="$folder/headers" -q --max-redirect=$hops --tries=5 -O "$file" "$url"
  else
    fail "curl and GNU wget are both missing; install one of them"
  fi
}

# write_headers FORMAT [HEADER…]
write_headers() {
  form=$1
  shift
  rm -f "$folder/headers"
  (umask 077 && : >"$folder/headers")
  for header in "$@"; do
    case $header in
      *[!A-Za-z0-9_.:\ +/=-]*) fail "SVC_API_KEY_ID or SVC_API_KEY contains a character that no key has" ;;
    esac
    # shellcheck disable=SC2059
    printf "$form" "$header" >>"$folder/headers"
  done
}

# curl knows no SOCKS_PROXY.
use_proxies() {
  socks=${SOCKS_PROXY:-${socks_proxy:-}}
  [ -z "$socks" ] || [ -n "${ALL_PROXY:-${all_proxy:-}}" ] || { ALL_PROXY=socks5h://${socks#*://} && export ALL_PROXY; }
}

# The certificates that this script trusts beside those of the system.
use_authorities() {
  given=${SVC_CA_FILE:-}
  if [ -n "$given" ]; then
    [ -r "$given" ] && grep -q 'BEGIN CERTIFICATE' "$given" || fail "SVC_CA_FILE: $given is no file of certificates in PEM"
    cp "$given" "$folder/authorities"
  elif [ "$root" = "$served_from" ] && case $served_authority in *'BEGIN CERTIFICATE'*) true ;; *) false ;; esac; then
    printf '%s\n' "$served_authority" >"$folder/authorities"
  elif [ -s "$authorities" ]; then
    cp "$authorities" "$folder/authorities"
  else
    return 0
  fi
  : >"$folder/roots"
  for bundle in "${SSL_CERT_FILE:-}" /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem; do
    [ -n "$bundle" ] && [ -r "$bundle" ] || continue
    cat "$bundle" >>"$folder/roots"
    break
  done
  cat "$folder/authorities" >>"$folder/roots"
}

keep_authorities() {
  [ -s "$folder/authorities" ] || return 0
  cmp -s "$folder/authorities" "$authorities" 2>/dev/null && return 0
  cp "$folder/authorities" "$authorities.new"
  chmod 644 "$authorities.new"
  mv -f "$authorities.new" "$authorities"
  echo "the certificates in $authorities are trusted by svc-agent and svc-server"
}

# The service has another environment than this script.
keep_proxies() {
  [ ! -e "$environment" ] || return 0
  lines=
  for name in HTTPS_PROXY HTTP_PROXY ALL_PROXY SOCKS_PROXY NO_PROXY https_proxy http_proxy all_proxy socks_proxy no_proxy; do
    [ "$name" != ALL_PROXY ] || [ -z "${socks:-}" ] || continue
    eval "value=\${$name:-}"
    # Lists are also written with blanks.
    case $name in NO_PROXY | no_proxy) value=$(printf %s "$value" | tr -s ', \t\n' ',' | sed 's/^,//; s/,$//') ;; esac
    [ -n "$value" ] || continue
    case $value in *[!A-Za-z0-9_.:/@%,*+~=\[\]-]*) fail "$name contains a character that no address of a proxy has" ;; esac
    lines="$lines$name=$value
"
  done
  [ -n "$lines" ] || return 0
  mkdir -p "${environment%/*}"
  # A proxy's password may be in it.
  (umask 077 && printf '%s' "$lines" >"$environment.new")
  mv -f "$environment.new" "$environment"
  echo "the proxies are in $environment"
}

fetch_credentials() {
  if [ -z "${SVC_API_KEY_ID:-}" ] || [ -z "${SVC_API_KEY:-}" ] || [ -z "${SVC_PART_ID:-}" ]; then
    [ -e "$credentials" ] || echo "$credentials does not exist yet: write the credentials to it, or run this script with" \
      "SVC_API_KEY_ID, SVC_API_KEY and SVC_PART_ID"
    return 0
  fi
  if [ -e "$credentials" ] && [ -z "$force" ]; then
    echo "$credentials exists and stays unchanged; -f replaces it"
    return 0
  fi
  get "$root/api/json1/config?client=true&id=$SVC_PART_ID" "$folder/credentials" \
    "key_id: $SVC_API_KEY_ID" "key: $SVC_API_KEY" ||
    fail "cannot get the credentials of part $SVC_PART_ID from $root: check the address, which must not lead to another one, the key and the part"
  grep -q '"app_address"' "$folder/credentials" || fail "the answer of $root contains no credentials: does this network want a login, or is the address another one?"
  (umask 077 && cp "$folder/credentials" "$credentials.new")
  sync "$credentials.new" 2>/dev/null || sync
  mv -f "$credentials.new" "$credentials"
  echo "the credentials are in $credentials"
}

fetch_agent() {
  if [ -n "${SVC_AGENT_URL:-}" ]; then
    get "$SVC_AGENT_URL" "$folder/svc-agent" || fail "cannot download svc-agent from $(shown "$SVC_AGENT_URL")"
  else
    fetch_signed
  fi
  check_sums
  chmod 755 "$folder/svc-agent"
  said=$("$folder/svc-agent" --version 2>"$folder/errors") && code=0 || code=$?
  # 126: there, and not to be run.
  [ $code != 126 ] || fail "no program may run in $folder: set TMPDIR to a folder where one may, such as /root"
  case $said in
    svc-agent*) ;;
    *) fail "the download is not an svc-agent that runs on this system: $(tail -n 1 "$folder/errors" | cut -c 1-300)" ;;
  esac
}

fetch_signed() {
  release="$root/releases/svc-agent/${SVC_VERSION:-stable}/$platform"
  # A release that is published meanwhile changes what a channel leads to, so the version of the signature is fetched.
  tries=1
  until fetch_release; do
    [ $tries -lt 3 ] || fail "the download is damaged: its SHA-256 is $found, wanted ${wanted:-a SHA-256 in $release.sig}"
    tries=$((tries + 1))
  done
}

# The program of the version that the signature names; fails if it is not the program that was signed.
fetch_release() {
  get "$release.sig" "$folder/signature" || fail "cannot download $release.sig"
  # A login page of the network answers everything.
  grep -q '"sha256"' "$folder/signature" ||
    fail "$root answers with something else than a signature: does this network want a login, or is the address another one?"
  wanted=$(sed -n 's/.*"sha256"[^0-9a-f]*\([0-9a-f]\{64\}\).*/\1/p' "$folder/signature" | head -n 1)
  version=$(sed -n 's/.*"version"[": ]*\([0-9A-Za-z.+_-]*\).*/\1/p' "$folder/signature" | head -n 1)
  from="$root/releases/svc-agent/${version:-${SVC_VERSION:-stable}}/$platform"
  get "$from" "$folder/svc-agent" || fail "cannot download svc-agent from $from"
  found=$(sha256sum "$folder/svc-agent" | cut -d ' ' -f 1)
  [ "$wanted" = "$found" ]
}

# shown URL: without what may be secret in it
shown() {
  printf %s "$1" | sed 's,://[^/@]*@,://,; s/[?#].*//'
}

# With SVC_SUMS only a program of the project is taken, whatever the control plane serves.
check_sums() {
  [ -n "${SVC_SUMS:-}" ] || return 0
  [ -r "$SVC_SUMS" ] && [ -r "$SVC_SUMS.sig" ] || fail "SVC_SUMS: there is no $SVC_SUMS, or no $SVC_SUMS.sig"
  command -v openssl >/dev/null 2>&1 || fail "SVC_SUMS: the program openssl is missing"
  # The bytes before the 32 bytes of a public key, in base64.
  {
    echo '-----BEGIN PUBLIC KEY-----'
    { printf '\060\052\060\005\006\003\053\145\160\003\041\000' && printf %s "$project_key" | openssl base64 -d -A; } | openssl base64
    echo '-----END PUBLIC KEY-----'
  } >"$folder/project.pem"
  openssl pkeyutl -verify -pubin -inkey "$folder/project.pem" -rawin -in "$SVC_SUMS" -sigfile "$SVC_SUMS.sig" \
    >/dev/null 2>&1 || fail "SVC_SUMS: the project's key has not signed $SVC_SUMS (this needs openssl 3)"
  found=$(sha256sum "$folder/svc-agent" | cut -d ' ' -f 1)
  grep -q "^$found  svc-agent\$" "$SVC_SUMS" || fail "SVC_SUMS: $SVC_SUMS has no svc-agent with SHA-256 $found"
}

# From now on the agent accepts only releases signed with the keys of this control plane, or with their successors.
pin_keys() {
  [ ! -e "$keys" ] || return 0
  if get "$root/releases/keys.json" "$folder/keys" && grep -q '"public_key"' "$folder/keys"; then
    mkdir -p "${keys%/*}"
    cp "$folder/keys" "$keys.new"
    sync "$keys.new" 2>/dev/null || sync
    mv -f "$keys.new" "$keys"
    return 0
  fi
  # Without keys the agent takes every release and every package, of anybody on the way as well.
  missing="there are no keys of releases at $root/releases/keys.json"
  pin="to pin keys, write a JSON list of public keys in base64 to $keys"
  [ "${SVC_UNSIGNED:-}" = 1 ] || fail "$missing: try again; $pin; or set SVC_UNSIGNED=1 to check no signatures"
  echo "install.sh: WARNING: $missing: this device checks no signatures of releases and packages; $pin" >&2
}

main "$@"
