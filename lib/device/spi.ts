/** Devices on an SPI bus through the kernel's spidev (<linux/spi/spidev.h>). */

import type { Device, Devices } from "../base/host.ts";
import { opened } from "./access.ts";
import { StructFields } from "./fields.ts";

/** The control call for one transfer, whose description has 32 bytes. */
const TRANSFER = 0x40206b00;
const SET_MODE = 0x40016b01;
const BITS_PER_WORD = 8;

export class SpiDevice {
  private constructor(private readonly device: Device, private readonly speedHz: number) {}

  /** The device on a bus by its chip select, in SPI mode 0. */
  static open(host: Devices, bus: string, chipSelect: string, speedHz: number): SpiDevice {
    const device = opened(host, `/dev/spidev${bus}.${chipSelect}`);
    try {
      new StructFields(SET_MODE).sendTo(device);
      return new SpiDevice(device, speedHz);
    } catch (cause) {
      device.close();
      throw cause;
    }
  }

  /** Sends bytes and returns the bytes received meanwhile. */
  transfer(sent: Uint8Array<ArrayBuffer>): Uint8Array<ArrayBuffer> {
    const received = new Uint8Array(sent.length);
    const fields = new StructFields(TRANSFER).set(16, sent.length).set(20, this.speedHz);
    fields.bytes[26] = BITS_PER_WORD;
    fields.sendTo(this.device, [{ at: 0, bytes: sent }, { at: 8, bytes: received }]);
    return received;
  }

  close(): void {
    this.device.close();
  }
}
