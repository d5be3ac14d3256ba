/** A video service without video: six parts of made-up bytes, 40 ms apart, with the request's id. */

import { type Video, VideoApi, type VideoPart, type VideoSpan } from "../../lib/api/services/video.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { type JsonObject, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseResource, type Call } from "../../lib/resource/resource.ts";

const PARTS = 6;
const PART_BYTES = 512;
const PART_MS = 40;
/** A longer one is cut: the answer repeats it. */
const ID_CHARACTERS_MAX = 256;

export const FakeVideo = model({
  api: VideoApi,
  name: "rdk:builtin:fake",
  doc: "A video service without video: gives made-up bytes.",
  attributes: object({}),
  construct: ({ name, clock }) => new Fake(name, clock),
});

class Fake extends BaseResource implements Video {
  readonly #closing = new AbortController();

  constructor(name: ResourceName, private readonly clock: Clock) {
    super(name);
  }

  async *getVideo({ requestId, container }: VideoSpan, call?: Call): AsyncGenerator<VideoPart> {
    const signal = AbortSignal.any([this.#closing.signal, ...call?.signal ? [call.signal] : []]);
    const payload = Uint8Array.from({ length: PART_BYTES }, (_, index) => index * 17 % 251);
    for (let part = 0; part < PARTS; part++) {
      await this.clock.sleep(PART_MS, signal);
      const id = requestId.slice(0, ID_CHARACTERS_MAX);
      const header = new TextEncoder().encode(`fake-${id}-${String(part).padStart(2, "0")}\n`);
      yield { data: new Uint8Array([...header, ...payload]), container };
    }
  }

  override doCommand(command: JsonObject): Promise<JsonObject> {
    return Promise.resolve(command);
  }

  override close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    return Promise.resolve();
  }
}
