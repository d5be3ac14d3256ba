#!/bin/bash
# A phone with Bluetooth, which is a second controller of the same computer.
#
#   find NAME                     finds a device by its name and connects to it; prints its object
#   read UUID                     prints the bytes of a characteristic, in hexadecimal
#   write UUID PASSWORD VALUE     writes a value as the app does: encrypted with the device's key, behind the password
#   pair                          pairs with the device
set -euo pipefail
key=70bc8310-68ca-5011-9282-72f201293dfb
device=$(cat /run/air/phone.device 2> /dev/null || true)

# The object of a characteristic.
object() {
  local path
  for path in $(busctl tree --list org.bluez | grep -E "^$device/service[0-9a-f]+/char[0-9a-f]+$"); do
    if busctl get-property org.bluez "$path" org.bluez.GattCharacteristic1 UUID | grep -q "$1"; then
      echo "$path"
      return
    fi
  done
  echo "no characteristic $1" >&2
  return 1
}

bytes() {
  busctl call org.bluez "$(object "$1")" org.bluez.GattCharacteristic1 ReadValue 'a{sv}' 0 |
    perl -lane 'print join "", map { sprintf "%02x", $_ } @F[2 .. $#F]'
}

# Looks around for some seconds; BlueZ forgets soon after what it saw.
look_around() {
  local own
  own=$(busctl get-property org.bluez /org/bluez/hci1 org.bluez.Adapter1 Address | cut -d'"' -f2)
  (
    echo "select $own"
    sleep 1
    echo "scan le"
    sleep 5
    echo quit
  ) | bluetoothctl > /dev/null
}

find_device() {
  local one
  for _ in $(seq 20); do
    for one in $(busctl tree --list org.bluez | grep -E "^/org/bluez/hci1/dev_[0-9A-F_]+$"); do
      busctl get-property org.bluez "$one" org.bluez.Device1 Alias | grep -qF "\"$1\"" || continue
      busctl call --timeout=60 org.bluez "$one" org.bluez.Device1 Connect
      until busctl get-property org.bluez "$one" org.bluez.Device1 ServicesResolved | grep -q true; do sleep 0.5; done
      echo "$one" | tee /run/air/phone.device
      return
    done
    look_around
  done
  echo "no device $1"
  return 1
}

case $1 in
find) find_device "$2" ;;
read) bytes "$2" ;;
write)
  bytes "$key" | perl -ne 'chomp; print pack "H*", $_' > /run/air/phone.key
  sealed=$(printf '%s:%s' "$3" "$4" | openssl pkeyutl -encrypt -pubin -keyform DER -inkey /run/air/phone.key \
    -pkeyopt rsa_padding_mode:oaep -pkeyopt rsa_oaep_md:sha256 | od -An -v -tu1 | tr -d '\n')
  busctl call --timeout=30 org.bluez "$(object "$2")" org.bluez.GattCharacteristic1 WriteValue 'aya{sv}' 256 $sealed 0
  ;;
pair) busctl call --timeout=60 org.bluez "$device" org.bluez.Device1 Pair ;;
esac
