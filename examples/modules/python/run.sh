#!/bin/sh
# Needs the published library: python3 -m venv venv && venv/bin/pip install viam-sdk
here=$(dirname "$0")
[ -x "$here/venv/bin/python3" ] && PYTHON="$here/venv/bin/python3"
exec "${PYTHON:-python3}" "$here/main.py" "$@"
