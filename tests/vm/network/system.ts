/**
 * The system for tests of networks: Debian's kernel with simulated radios, and NetworkManager as a device has it.
 *
 * The room owns the virtual device with radios, and the shop, the routers and the phone around it.
 */

import type { System } from "../image.ts";

/**
 * NetworkManager manages the device's radio and nothing else; the other radios and the cable to the outside belong to
 * the routers and to the phone. `air.sh`, in the folder that the machine mounts, makes them before NetworkManager starts.
 */
const PREPARE = `
systemctl disable systemd-networkd hostapd
systemctl mask hostapd
cat > /etc/NetworkManager/conf.d/10-device.conf <<CONF
[main]
no-auto-default=*
[keyfile]
unmanaged-devices=interface-name:en*;interface-name:eth*;interface-name:up*;interface-name:wlan1;interface-name:wlan2;interface-name:wlan3;interface-name:hwsim*
CONF
cat > /etc/systemd/system/air.service <<UNIT
[Unit]
Description=Radios, routers and a phone
Before=NetworkManager.service
After=systemd-udevd.service
RequiresMountsFor=/mnt/share

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/bash /mnt/share/air.sh start

[Install]
WantedBy=multi-user.target
UNIT
echo "share /mnt/share 9p trans=virtio,ro,msize=262144,nofail 0 0" >> /etc/fstab
mkdir -p /mnt/share
systemctl enable air NetworkManager bluetooth
apt-get clean
`;

export const RADIO_DEVICE: System = {
  name: "radio",
  packages: [
    ...["linux-image-amd64", "kmod", "ca-certificates", "curl", "busybox"],
    // `libpam-systemd` is what polkitd, which NetworkManager needs, is configured after.
    ...["libpam-systemd", "network-manager", "wpasupplicant", "hostapd", "dnsmasq-base", "iw", "nftables"],
    ...["bluez", "bluez-test-tools"],
  ],
  prepare: PREPARE,
};
