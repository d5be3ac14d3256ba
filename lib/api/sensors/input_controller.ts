/** Input controller: a gamepad or similar device, with named controls and their events. */

import {
  type Event as EventMessage,
  InputControllerService,
} from "../../../proto/gen/input_controller_pb.ts";
import { SvcError } from "../../base/error.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import { refusingNaN } from "../shared/numbers.ts";
import { callOf, ComponentClient, componentHandlers, relayEndless } from "../shared/resource.ts";
import { toMs, toTimestamp } from "../shared/time.ts";

/** One event of a control. */
export interface InputEvent {
  /** Since the Unix epoch. */
  readonly timeMs: number;
  /** `ButtonPress`, `PositionChangeAbs`, … as published. */
  readonly event: string;
  /** `AbsoluteX`, `ButtonStart`, … as published. */
  readonly control: string;
  /** 0 or 1 for buttons, from -1 to 1 for axes. */
  readonly value: number;
}

/** Events of one control; `AllEvents` means every kind, `ButtonChange` both press and release. */
export interface EventFilter {
  /** `AbsoluteX`, `ButtonStart`, … as published. */
  readonly control: string;
  /** `ButtonPress`, `PositionChangeAbs`, … as published. */
  readonly events: readonly string[];
}

/** Buttons and axes that people move. */
export interface InputController extends Component {
  /** Names of the controls. */
  getControls(call?: Call): Promise<readonly string[]>;
  /** The latest event of each control that had an event: the control's present state. */
  getEvents(call?: Call): Promise<readonly InputEvent[]>;
  /** Events as they happen, until the call's signal aborts or the controller closes. */
  streamEvents(filters: readonly EventFilter[], call?: Call): AsyncIterable<InputEvent>;
  /** Makes an event as if somebody had touched the control; `unimplemented` for real hardware. */
  triggerEvent(event: InputEvent, call?: Call): Promise<void>;
}

class InputControllerClient extends ComponentClient<typeof InputControllerService>
  implements InputController {
  async getControls(call?: Call): Promise<readonly string[]> {
    return (await this.rpc.getControls(this.controller(call), call)).controls;
  }

  async getEvents(call?: Call): Promise<readonly InputEvent[]> {
    return (await this.rpc.getEvents(this.controller(call), call)).events.map(fromEventMessage);
  }

  async *streamEvents(filters: readonly EventFilter[], call?: Call): AsyncGenerator<InputEvent> {
    const events = filters.map(({ control, events }) => ({ control, events: [...events] }));
    for await (const { event } of this.rpc.streamEvents({ ...this.controller(call), events }, call)) {
      if (event) yield fromEventMessage(event);
    }
  }

  async triggerEvent(event: InputEvent, call?: Call): Promise<void> {
    await this.rpc.triggerEvent({ ...this.controller(call), event: toEventMessage(event) }, call);
  }

  /** Requests of this service have the resource's name in a field of their own. */
  private controller(call?: Call) {
    const { name: controller, extra } = this.request(call);
    return { controller, extra };
  }
}

function toEventMessage({ timeMs, event, control, value }: InputEvent) {
  return { time: toTimestamp(timeMs), event, control, value };
}

function fromEventMessage({ time, event, control, value }: EventMessage): InputEvent {
  return { timeMs: toMs(time), event, control, value };
}

/** Most characters of a control's or an event's name. */
const NAME_MAX = 200;

/** The API `rdk:component:input_controller`. */
export const InputControllerApi: Api<InputController> = {
  name: "rdk:component:input_controller",
  desc: InputControllerService,
  namedBy: ["controller", "name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) =>
    new InputControllerClient(name, channel, InputControllerService),
  serve: (find) =>
    refusingNaN(service(InputControllerService, {
      ...componentHandlers(find),
      getControls: async (request, ctx) => ({
        controls: [...await find(request.controller).getControls(callOf(request, ctx))],
      }),
      getEvents: async (request, ctx) => ({
        events: (await find(request.controller).getEvents(callOf(request, ctx))).map(toEventMessage),
      }),
      streamEvents: async function* (request, ctx) {
        // The request's cancelled events need no handling: the caller no longer wants them, and a new stream
        // leaves them out.
        const filters = request.events.map(({ control, events }) => ({ control, events }));
        const events = find(request.controller).streamEvents(filters, callOf(request, ctx));
        for await (const event of relayEndless(events, `the events of ${request.controller}`, ctx)) {
          yield { event: toEventMessage(event) };
        }
      },
      triggerEvent: async (request, ctx) => {
        if (!request.event) {
          throw new SvcError(
            "invalid_argument",
            `triggering an event of ${request.controller}: got no event`,
          );
        }
        const event = fromEventMessage(request.event);
        const longest = Math.max(event.control.length, event.event.length);
        if (longest > NAME_MAX) {
          throw new SvcError(
            "invalid_argument",
            `triggering an event of ${request.controller}: got a name of ${longest} characters, wanted at most ${NAME_MAX}`,
          );
        }
        await find(request.controller).triggerEvent(event, callOf(request, ctx));
        return {};
      },
    })),
};
