/**
 * The system for tests of pins: Debian's kernel with the simulated hardware that Linux has for such tests.
 *
 * Debian's kernels have `i2c-stub`, but not the simulator of GPIO chips (`gpio-sim`), the dummy IIO device and the
 * driver of the PWM chip PCA9685. Those are built from Debian's source of the same kernel.
 */

import type { System } from "../image.ts";

/**
 * `gpio-sim` needs simulated interrupts. If the kernel has none, the module contains them. A module calls their
 * handlers through `generic_handle_irq`, because `irq_to_desc` is not exported.
 */
const KBUILD = [
  "obj-m := gpio-simulator.o pwm-pca9685.o",
  "gpio-simulator-y := gpio-sim.o irq_sim.o",
].join("\\n");

const BUILD_MODULES = `
version=$(ls /lib/modules)
source=$(basename /usr/src/linux-source-*.tar.xz .tar.xz)
mkdir /root/modules && cd /root/modules
tar -xf /usr/src/$source.tar.xz --strip-components=1 \\
  $source/drivers/gpio $source/drivers/pwm/pwm-pca9685.c $source/kernel/irq/irq_sim.c
mkdir build && cp drivers/gpio/gpio-sim.c drivers/gpio/*.h drivers/pwm/pwm-pca9685.c kernel/irq/irq_sim.c build
sed -i 's/handle_simple_irq(irq_to_desc(irqnum))/generic_handle_irq(irqnum)/' build/irq_sim.c
printf '${KBUILD}\\n' > build/Kbuild
make -C /lib/modules/$version/build M=$PWD/build modules
mkdir -p /lib/modules/$version/extra && cp build/*.ko /lib/modules/$version/extra
depmod $version
rm -rf /root/modules /usr/src/$source.tar.xz
apt-get clean
`;

export const PINS_DEVICE: System = {
  name: "pins",
  packages: [
    "linux-image-amd64",
    "linux-headers-amd64",
    "linux-source",
    "gcc",
    "make",
    "xz-utils",
    "kmod",
    "gpiod",
    "i2c-tools",
  ],
  prepare: BUILD_MODULES,
};
