/** The common part of encoders that count ticks and know no angle. */

import {
  type Encoder,
  type EncoderPosition,
  type EncoderProperties,
  type PositionType,
  unsupportedPositionType,
} from "../../lib/api/sensors/encoder.ts";
import { BaseComponent } from "../../lib/resource/resource.ts";

export abstract class TicksEncoder extends BaseComponent implements Encoder {
  /** Whole ticks from the zero position; throws if it does not know them. */
  protected abstract ticks(): number;

  abstract resetPosition(): Promise<void>;

  getPosition(type?: PositionType): Promise<EncoderPosition> {
    if (type === "degrees") return Promise.reject(unsupportedPositionType(type));
    return Promise.try(() => ({ value: this.ticks(), type: "ticks" }));
  }

  getProperties(): Promise<EncoderProperties> {
    return Promise.resolve({ ticksCountSupported: true, angleDegreesSupported: false });
  }
}
