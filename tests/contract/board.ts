import { assertEquals, assertRejects } from "@std/assert";
import { type Board, BoardApi } from "../../lib/api/actuators/board.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

/** A board of the test's machine has a free pin 37, an analog `analog` and an interrupt `interrupt`. */
export const contract: Contract<Board> = {
  api: BoardApi,
  cases: {
    "pins read back their level": async (board) => {
      for (const high of [true, false]) {
        await board.setGpio("37", high);
        assertEquals(await board.getGpio("37"), high);
      }
    },
    "pins read back duty cycle and frequency, until a level is set": async (board) => {
      await board.setPwmFrequency("37", 1500);
      await board.setPwm("37", 0.25);
      assertEquals([await board.getPwm("37"), await board.getPwmFrequency("37")], [0.25, 1500]);
      await board.setGpio("37", false);
      assertEquals([await board.getGpio("37"), await board.getPwm("37")], [false, 0]);
    },
    "the largest frequency of the wire is set or refused": async (board) => {
      const refused = await board.setPwmFrequency("37", 2 ** 64).catch((error: SvcError) => error.code);
      if (refused === undefined) assertEquals(await board.getPwmFrequency("37"), 2 ** 64);
      await board.setGpio("37", false);
    },
    "analogs are written or refused, and read within their range": async (board) => {
      const refused = await board.writeAnalog("analog", 7).catch((error: SvcError) => error.code);
      assertEquals(refused ?? "unimplemented", "unimplemented");
      const { value, minRange, maxRange } = await board.readAnalog("analog");
      assertEquals(value >= minRange && value <= maxRange, true);
    },
    "interrupts count up": async (board) => {
      const first = await board.getDigitalInterruptValue("interrupt");
      assertEquals(await board.getDigitalInterruptValue("interrupt") >= first, true);
    },
    "unknown analogs and interrupts are refused": async (board) => {
      await assertRejects(() => board.readAnalog("nowhere"), SvcError, "nowhere");
      await assertRejects(() => board.writeAnalog("nowhere", 1), SvcError, "nowhere");
      await assertRejects(() => board.getDigitalInterruptValue("nowhere"), SvcError, "nowhere");
      await assertRejects(() => board.streamTicks(["interrupt", "nowhere"]), SvcError, "nowhere");
    },
    "streamTicks ends when its call is aborted": async (board) => {
      const listener = new AbortController();
      const ticks = await board.streamTicks(["interrupt"], { signal: listener.signal });
      const reading = (async () => {
        for await (const { pinName } of ticks) assertEquals(pinName, "interrupt");
      })();
      listener.abort();
      await reading;
    },
    "setPowerMode succeeds or is unimplemented": async (board) => {
      const refused = await board.setPowerMode("normal", 1500).catch((error: SvcError) => error.code);
      assertEquals(refused ?? "unimplemented", "unimplemented");
    },
  },
};
