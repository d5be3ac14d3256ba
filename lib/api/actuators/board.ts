/**
 * Board: pins, PWM, analogs and digital interrupts. Callers address pins by number or name, analogs and
 * interrupts by their configured names. Duty cycles are fractions from 0 to 1, frequencies are in Hz.
 */

import { BoardService, PowerMode as WireMode } from "../../../proto/gen/board_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers, relayEndless } from "../shared/resource.ts";
import { nameParameter } from "../shared/capture.ts";
import { toDuration, toMs } from "../shared/time.ts";

/** A computer's or microcontroller's pins. Throws `not_found` or `invalid_argument` for an unknown pin. */
export interface Board extends Component {
  /** Makes the pin an output with this level. */
  setGpio(pin: string, high: boolean, call?: Call): Promise<void>;
  /** Whether the pin is high. */
  getGpio(pin: string, call?: Call): Promise<boolean>;
  /** The configured duty cycle, 0 to 1. */
  getPwm(pin: string, call?: Call): Promise<number>;
  /** `dutyCyclePct` is 0 to 1. */
  setPwm(pin: string, dutyCyclePct: number, call?: Call): Promise<void>;
  /** In Hz. */
  getPwmFrequency(pin: string, call?: Call): Promise<number>;
  /** In Hz; 0 is the board's default. */
  setPwmFrequency(pin: string, frequencyHz: number, call?: Call): Promise<void>;
  /** The value of an analog reader, with its range and step. */
  readAnalog(analog: string, call?: Call): Promise<AnalogReading>;
  /** Sets an analog output, in the writer's own steps. */
  writeAnalog(analog: string, value: number, call?: Call): Promise<void>;
  /** Number of triggers of the interrupt so far. */
  getDigitalInterruptValue(interrupt: string, call?: Call): Promise<number>;
  /**
   * Ticks of the named interrupts from now on. Resolves when the board listens; rejects when it has no such
   * interrupt. The ticks continue until `call.signal` aborts, the caller leaves the iteration or the board
   * closes. The iteration of a listener that reads too slowly ends with an error, after which it may listen again.
   */
  streamTicks(interrupts: readonly string[], call?: Call): Promise<AsyncIterable<Tick>>;
  /** Changes the power mode, and changes it back after `durationMs` if given. */
  setPowerMode(mode: PowerMode, durationMs?: number, call?: Call): Promise<void>;
}

/** A value of an analog input. */
export interface AnalogReading {
  /** As the converter reports it. */
  readonly value: number;
  /** Lower end of the input's range, in the unit of the device. */
  readonly minRange: number;
  /** Upper end of the input's range, in the unit of the device. */
  readonly maxRange: number;
  /** The difference between neighbouring values, in the unit of the device. */
  readonly stepSize: number;
}

/** One edge of an interrupt. */
export interface Tick {
  /** The interrupt's name. */
  readonly pinName: string;
  /** Nanoseconds since an arbitrary start; never decreases. */
  readonly timeNs: bigint;
  /** Whether the pin went high. */
  readonly high: boolean;
}

/** How much power the board draws; `offline_deep` saves most. */
export type PowerMode = "normal" | "offline_deep";

const MODES: Record<PowerMode, WireMode> = {
  normal: WireMode.NORMAL,
  offline_deep: WireMode.OFFLINE_DEEP,
};

/** The largest frequency on the wire. As a number it is one more, which the wire does not hold. */
const WIRE_HZ_MAX = 2n ** 64n - 1n;

const END: IteratorResult<Tick, undefined> = { done: true, value: undefined };

class BoardClient extends ComponentClient<typeof BoardService> implements Board {
  async setGpio(pin: string, high: boolean, call?: Call): Promise<void> {
    await this.rpc.setGPIO({ ...this.request(call), pin, high }, call);
  }

  async getGpio(pin: string, call?: Call): Promise<boolean> {
    return (await this.rpc.getGPIO({ ...this.request(call), pin }, call)).high;
  }

  async getPwm(pin: string, call?: Call): Promise<number> {
    return (await this.rpc.pWM({ ...this.request(call), pin }, call)).dutyCyclePct;
  }

  async setPwm(pin: string, dutyCyclePct: number, call?: Call): Promise<void> {
    await this.rpc.setPWM({ ...this.request(call), pin, dutyCyclePct }, call);
  }

  async getPwmFrequency(pin: string, call?: Call): Promise<number> {
    return Number((await this.rpc.pWMFrequency({ ...this.request(call), pin }, call)).frequencyHz);
  }

  async setPwmFrequency(pin: string, frequencyHz: number, call?: Call): Promise<void> {
    await this.rpc.setPWMFrequency(
      { ...this.request(call), pin, frequencyHz: wireHz(frequencyHz) },
      call,
    );
  }

  async readAnalog(analog: string, call?: Call): Promise<AnalogReading> {
    const { name: boardName, extra } = this.request(call);
    const answer = await this.rpc.readAnalogReader({ boardName, analogReaderName: analog, extra }, call);
    const { value, minRange, maxRange, stepSize } = answer;
    return { value, minRange, maxRange, stepSize };
  }

  async writeAnalog(analog: string, value: number, call?: Call): Promise<void> {
    await this.rpc.writeAnalog({ ...this.request(call), pin: analog, value }, call);
  }

  async getDigitalInterruptValue(interrupt: string, call?: Call): Promise<number> {
    const { name: boardName, extra } = this.request(call);
    const request = { boardName, digitalInterruptName: interrupt, extra };
    return Number((await this.rpc.getDigitalInterruptValue(request, call)).value);
  }

  async streamTicks(interrupts: readonly string[], call?: Call): Promise<AsyncIterable<Tick>> {
    const request = { ...this.request(call), pinNames: [...interrupts] };
    const answers = this.rpc.streamTicks(request, call)[Symbol.asyncIterator]();
    // The first answer is empty and says that the board listens.
    await answers.next();

    const next = async (): Promise<IteratorResult<Tick, undefined>> => {
      try {
        for (;;) {
          const answer = await answers.next();
          if (answer.done) return END;
          const { pinName, time: timeNs, high } = answer.value;
          if (pinName !== "") return { done: false, value: { pinName, timeNs, high } };
        }
      } catch (error) {
        if (call?.signal?.aborted) return END;
        throw error;
      }
    };
    const leave = async (): Promise<IteratorResult<Tick, undefined>> => {
      await answers.return?.();
      return END;
    };
    return { [Symbol.asyncIterator]: () => ({ next, return: leave }) };
  }

  async setPowerMode(mode: PowerMode, durationMs?: number, call?: Call): Promise<void> {
    const duration = durationMs === undefined ? undefined : toDuration(durationMs);
    await this.rpc.setPowerMode({ ...this.request(call), powerMode: MODES[mode], duration }, call);
  }
}

/** The API `rdk:component:board`. */
export const BoardApi: Api<Board> = {
  name: "rdk:component:board",
  desc: BoardService,
  namedBy: ["name", "boardName"],
  monitored: "none",
  joints: "none",
  captured: {
    Analogs: async (board, parameters, call) => {
      const reader = nameParameter("reader_name", parameters);
      const { value, minRange, maxRange, stepSize } = await board.readAnalog(reader, call);
      return { reading: { value, min_range: minRange, max_range: maxRange, step_size: stepSize } };
    },
    Gpios: async (board, parameters, call) => ({
      reading: { high: await board.getGpio(nameParameter("pin_name", parameters), call) },
    }),
  },
  client: (name: ResourceName, channel: Channel) => new BoardClient(name, channel, BoardService),
  serve: (find) =>
    refusingNaN(service(BoardService, {
      ...componentHandlers(find),
      setGPIO: async (request, ctx) => {
        await find(request.name).setGpio(request.pin, request.high, callOf(request, ctx));
        return {};
      },
      getGPIO: async (request, ctx) => ({
        high: await find(request.name).getGpio(request.pin, callOf(request, ctx)),
      }),
      pWM: async (request, ctx) => ({
        dutyCyclePct: await find(request.name).getPwm(request.pin, callOf(request, ctx)),
      }),
      setPWM: async (request, ctx) => {
        await find(request.name).setPwm(request.pin, request.dutyCyclePct, callOf(request, ctx));
        return {};
      },
      pWMFrequency: async (request, ctx) => ({
        frequencyHz: wireHz(await find(request.name).getPwmFrequency(request.pin, callOf(request, ctx))),
      }),
      setPWMFrequency: async (request, ctx) => {
        const { name, pin, frequencyHz } = request;
        await find(name).setPwmFrequency(pin, Number(frequencyHz), callOf(request, ctx));
        return {};
      },
      readAnalogReader: async (request, ctx) =>
        await find(request.boardName).readAnalog(request.analogReaderName, callOf(request, ctx)),
      writeAnalog: async (request, ctx) => {
        await find(request.name).writeAnalog(request.pin, request.value, callOf(request, ctx));
        return {};
      },
      getDigitalInterruptValue: async (request, ctx) => {
        const { boardName, digitalInterruptName } = request;
        const count = await find(boardName).getDigitalInterruptValue(
          digitalInterruptName,
          callOf(request, ctx),
        );
        return { value: BigInt(count) };
      },
      streamTicks: async function* (request, ctx) {
        const ticks = await find(request.name).streamTicks(request.pinNames, callOf(request, ctx));
        // Published clients wait for one empty answer, which tells them that the names are valid.
        yield {};
        for await (const tick of relayEndless(ticks, `the ticks of ${request.name}`, ctx)) {
          const { pinName, timeNs: time, high } = tick;
          yield { pinName, time, high };
        }
      },
      setPowerMode: async (request, ctx) => {
        const { duration } = request;
        const durationMs = duration && toMs(duration);
        await find(request.name).setPowerMode(modeOf(request.powerMode), durationMs, callOf(request, ctx));
        return {};
      },
    })),
};

function wireHz(frequencyHz: number): bigint {
  const hz = BigInt(Math.round(frequencyHz));
  return hz > WIRE_HZ_MAX ? WIRE_HZ_MAX : hz;
}

function modeOf(wire: WireMode): PowerMode {
  for (const mode of ["normal", "offline_deep"] as const) if (MODES[mode] === wire) return mode;
  throw new SvcError(
    "invalid_argument",
    `power mode ${wire} is unknown, wanted normal (1) or offline_deep (2)`,
  );
}
