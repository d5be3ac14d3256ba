/**
 * The system for tests of pins: Debian's kernel with the simulated hardware that Linux has for such tests.
 *
 * Debian leaves the simulator of GPIO chips (`gpio-sim`), the dummy of IIO devices and the driver of the PWM chip
 * PCA9685 out of its kernels. They are built from Debian's own source of the same kernel; `i2c-stub` is there.
 */

import type { System } from "../image.ts";

/**
 * `gpio-sim` needs simulated interrupts, which are part of the module where the kernel has none. From a module they
 * reach their handlers by `generic_handle_irq`, as `irq_to_desc` is for the kernel alone.
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
