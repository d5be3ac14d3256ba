/** A loudspeaker without hardware: takes as long as the sound, and is silent. */

import { type AudioOut, AudioOutApi } from "../../lib/api/actuators/audio_out.ts";
import type { AudioFormat, AudioProperties } from "../../lib/api/shared/audio.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Logger } from "../../lib/base/log/log.ts";
import { object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

const CODEC = "pcm16";
const SAMPLE_BYTES = 2;

export const FakeAudioOut = model({
  api: AudioOutApi,
  name: "rdk:builtin:fake",
  doc: "A loudspeaker without hardware: takes as long as the sound, and is silent.",
  attributes: object({}),
  construct: ({ name, clock, logger }) => new Fake(name, clock, logger),
});

class Fake extends BaseComponent implements AudioOut {
  readonly #closing = new AbortController();

  constructor(name: ResourceName, private readonly clock: Clock, private readonly logger: Logger) {
    super(name);
  }

  async play(data: Uint8Array, format: AudioFormat | undefined, call?: Call): Promise<void> {
    if (data.length === 0) throw this.#refused("found no audio data, wanted some");
    const seconds = this.#seconds(data.length, format);
    this.logger.info(`plays ${data.length} bytes of ${CODEC}, which take ${seconds.toFixed(3)} s`);
    await this.clock.sleep(1000 * seconds, this.#signal(call));
  }

  async playStream(
    parts: AsyncIterable<Uint8Array>,
    format: AudioFormat | undefined,
    call?: Call,
  ): Promise<void> {
    this.#seconds(0, format);
    const signal = this.#signal(call);
    let seconds = 0;
    for await (const part of parts) {
      const lasts = this.#seconds(part.length, format);
      await this.clock.sleep(1000 * lasts, signal);
      seconds += lasts;
    }
    this.logger.info(`played a stream of ${seconds.toFixed(3)} s`);
  }

  getProperties(): Promise<AudioProperties> {
    return Promise.resolve({ supportedCodecs: [CODEC], sampleRateHz: 44_100, numChannels: 1 });
  }

  override close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    return Promise.resolve();
  }

  #signal(call?: Call): AbortSignal {
    return AbortSignal.any([this.#closing.signal, ...call?.signal ? [call.signal] : []]);
  }

  #seconds(bytes: number, format: AudioFormat | undefined): number {
    if (!format) throw this.#refused("found no audio info, wanted a codec, a sample rate and channels");
    const { codec, sampleRateHz, numChannels } = format;
    if (codec !== CODEC) throw this.#refused(`found the codec "${codec}", wanted ${CODEC}`);
    if (!(sampleRateHz > 0 && numChannels > 0)) {
      const found = `${sampleRateHz} samples a second and ${numChannels} channels`;
      throw this.#refused(`found ${found}, wanted both above 0`);
    }
    return Math.trunc(bytes / (SAMPLE_BYTES * numChannels)) / sampleRateHz;
  }

  #refused(what: string): SvcError {
    return new SvcError("invalid_argument", `${this.name} cannot play: ${what}`);
  }
}
