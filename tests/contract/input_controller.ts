import { assert, assertEquals, assertRejects } from "@std/assert";
import {
  type InputController,
  InputControllerApi,
  type InputEvent,
} from "../../lib/api/sensors/input_controller.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";
import { until } from "../support/until.ts";

export const contract: Contract<InputController> = {
  api: InputControllerApi,
  cases: {
    "getControls returns unique names": async (controller) => {
      const controls = await controller.getControls();
      assert(controls.length > 0);
      assertEquals(new Set(controls).size, controls.length);
    },
    "getEvents returns at most one event for each control": async (controller) => {
      const events = await controller.getEvents();
      const controls = events.map(({ control }) => control);
      assertEquals(new Set(controls).size, controls.length);
    },
    "triggerEvent sets the control's state and reaches streams": {
      capability: "triggers",
      has: takesTriggers,
      check: async (controller) => {
        const event = await buttonPress(controller);
        const { control } = event;
        const heard = first(controller.streamEvents([{ control, events: ["ButtonChange"] }]));
        // The stream may begin later than the trigger comes: again until it is heard.
        let isHeard = false;
        heard.then(() => isHeard = true, () => {});
        await until(async () => {
          await controller.triggerEvent(event);
          return isHeard;
        });
        assertEquals(await heard, event);
        const state = await controller.getEvents();
        assertEquals(state.find((one) => one.control === control), event);
      },
      otherwise: async (controller) => {
        const refused = async () => await controller.triggerEvent(await buttonPress(controller));
        assertEquals((await assertRejects(refused, SvcError)).code, "unimplemented");
      },
    },
    "streamEvents ends when its call is aborted": async (controller) => {
      const stop = new AbortController();
      const heard = first(controller.streamEvents([], { signal: stop.signal }));
      stop.abort();
      assertEquals(await heard.catch(() => undefined), undefined);
    },
  },
};

async function first(events: AsyncIterable<InputEvent>): Promise<InputEvent | undefined> {
  for await (const event of events) return event;
}

async function buttonPress(controller: InputController): Promise<InputEvent> {
  const [control] = await controller.getControls();
  return { timeMs: 1_700_000_000_123, event: "ButtonPress", control, value: 1 };
}

/** A controller does not say whether it takes triggers: it answers one, or refuses it. */
async function takesTriggers(controller: InputController): Promise<boolean> {
  const event = await buttonPress(controller);
  return await controller.triggerEvent(event).then(() => true, (error) => {
    if (SvcError.from(error).code === "unimplemented") return false;
    throw error;
  });
}
