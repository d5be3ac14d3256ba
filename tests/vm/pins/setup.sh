# Simulated hardware: a GPIO chip with 16 lines, an I2C bus with stubs, and the drivers on them.
set -e
modprobe configfs
modprobe gpio-simulator
modprobe i2c-dev
modprobe i2c-stub chip_addr=0x40,0x48,0x60,0x68
modprobe pwm-pca9685
modprobe ti-ads1015
cd /sys/kernel/config/gpio-sim
mkdir sim sim/bank0
echo 16 > sim/bank0/num_lines
echo tests > sim/bank0/label
mkdir sim/bank0/line3 sim/bank0/line4
echo LAMP > sim/bank0/line3/name
echo BUTTON > sim/bank0/line4/name
echo 1 > sim/live
bus=$(basename "$(dirname "$(grep -l 'SMBus stub' /sys/bus/i2c/devices/i2c-*/name)")")
i2cset -y "${bus#i2c-}" 0x60 0x00 0x11
echo pca9685 0x60 > /sys/bus/i2c/devices/$bus/new_device
echo ads1015 0x48 > /sys/bus/i2c/devices/$bus/new_device
echo "bus=${bus#i2c-} chip=$(cat sim/bank0/chip_name) lines=$(ls -d /sys/devices/platform/gpio-sim.*/gpiochip*)"
ls /dev/gpiochip* /sys/class/pwm /sys/bus/iio/devices /sys/class/gpio
dmesg | tail -n 3
