/**
 * Encoder: how far a shaft has turned, in ticks or in degrees.
 */

import { EncoderService, PositionType as WireType } from "../../../proto/gen/encoder_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { SvcError } from "../../base/error.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";
import { resetting } from "../shared/zero_resets.ts";

/** The unit of a position: ticks since the last reset, or degrees. */
export type PositionType = "ticks" | "degrees";

/** Measures the turns of a shaft. */
export interface Encoder extends Component {
  /** The position in the requested unit, or in the encoder's own by default; rejects an unsupported unit. */
  getPosition(type?: PositionType, call?: Call): Promise<EncoderPosition>;
  /** Makes the present position 0. */
  resetPosition(call?: Call): Promise<void>;
  /** Whether it gives ticks, degrees, or both. */
  getProperties(call?: Call): Promise<EncoderProperties>;
}

/** How far a shaft has turned since the last reset. */
export interface EncoderPosition {
  /** Ticks or degrees; negative in the backward direction. */
  readonly value: number;
  /** The unit of `value`. */
  readonly type: PositionType;
}

/** The units that an encoder can report. At least one of them is true. */
export interface EncoderProperties {
  /** Whether it counts ticks. */
  readonly ticksCountSupported: boolean;
  /** Whether it measures degrees. */
  readonly angleDegreesSupported: boolean;
}

/**
 * An encoder that cannot tell the direction of its shaft itself: the motor on the shaft reports it. Works
 * inside one process only; an encoder of another machine is never a driven encoder.
 */
export interface DrivenEncoder extends Encoder {
  /** Reports that the shaft turns at this speed from now on; the sign is the direction. */
  setSpeed(ticksPerMinute: number): void;
  /** Reports that the shaft is at this position. */
  setPosition(ticks: number): void;
}

export function isDriven(encoder: Encoder): encoder is DrivenEncoder {
  const { setSpeed, setPosition } = encoder as Partial<DrivenEncoder>;
  return typeof setSpeed === "function" && typeof setPosition === "function";
}

const WIRE_TYPES: Record<PositionType, WireType> = {
  ticks: WireType.TICKS_COUNT,
  degrees: WireType.ANGLE_DEGREES,
};

/** The error for a unit that an encoder does not support, in the published wording. */
export function unsupportedPositionType(type: PositionType): SvcError {
  const name = WireType[WIRE_TYPES[type]];
  return new SvcError("invalid_argument", `encoder does not support "${name}"; use a different PositionType`);
}

class EncoderClient extends ComponentClient<typeof EncoderService> implements Encoder {
  async getPosition(type?: PositionType, call?: Call): Promise<EncoderPosition> {
    const positionType = type && WIRE_TYPES[type];
    const answer = await this.rpc.getPosition({ ...this.request(call), positionType }, call);
    return { value: answer.value, type: typeOf(answer.positionType) ?? "ticks" };
  }

  async resetPosition(call?: Call): Promise<void> {
    await this.rpc.resetPosition(this.request(call), call);
  }

  async getProperties(call?: Call): Promise<EncoderProperties> {
    const { ticksCountSupported, angleDegreesSupported } = await this.rpc.getProperties(
      this.request(call),
      call,
    );
    return { ticksCountSupported, angleDegreesSupported };
  }
}

/** The API `rdk:component:encoder`. */
export const EncoderApi: Api<Encoder> = {
  name: "rdk:component:encoder",
  desc: EncoderService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: {
    TicksCount: async (encoder, _, call) => {
      const { value, type } = await encoder.getPosition(undefined, call);
      return { reading: { value, position_type: WIRE_TYPES[type] } };
    },
  },
  client: (name: ResourceName, channel: Channel) => new EncoderClient(name, channel, EncoderService),
  serve: (find) =>
    service(EncoderService, {
      ...componentHandlers(find),
      getPosition: async (request, ctx) => {
        const type = typeOf(request.positionType);
        const position = await find(request.name).getPosition(type, callOf(request, ctx));
        return { value: position.value, positionType: WIRE_TYPES[position.type] };
      },
      resetPosition: async (request, ctx) => {
        const encoder = find(request.name);
        await resetting(encoder, () => encoder.resetPosition(callOf(request, ctx)));
        return {};
      },
      getProperties: (request, ctx) => find(request.name).getProperties(callOf(request, ctx)),
    }),
};

function typeOf(wire: WireType | undefined): PositionType | undefined {
  if (wire === WireType.TICKS_COUNT) return "ticks";
  return wire === WireType.ANGLE_DEGREES ? "degrees" : undefined;
}
