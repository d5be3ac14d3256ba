/** A microphone without hardware: silence, a chunk every tenth of a second. */

import {
  type AudioChunk,
  type AudioIn,
  AudioInApi,
  type AudioRequest,
} from "../../lib/api/sensors/audio_in.ts";
import type { AudioProperties } from "../../lib/api/shared/audio.ts";
import type { Clock } from "../../lib/base/clock.ts";
import { SvcError } from "../../lib/base/error.ts";
import { integer, object } from "../../lib/base/schema/schema.ts";
import type { ResourceName } from "../../lib/resource/name.ts";
import { model } from "../../lib/resource/registry.ts";
import { BaseComponent, type Call } from "../../lib/resource/resource.ts";

const CODEC = "pcm16";
const SAMPLE_BYTES = 2;
const CHUNK_MS = 100;
const NS_PER_MS = 1_000_000n;

export const FakeAudioIn = model({
  api: AudioInApi,
  name: "rdk:builtin:fake",
  doc: "A microphone without hardware: gives silence.",
  attributes: object({
    sampleRate: integer("samples a second; 0 means the default", { min: 1, max: 192_000 }).zeroIsAbsent()
      .default(44_100),
    numChannels: integer("channels; 0 means the default", { min: 1, max: 32 }).zeroIsAbsent().default(1),
  }).required(),
  construct: ({ name, attributes: { sampleRate, numChannels }, clock }) =>
    new Fake(name, { codec: CODEC, sampleRateHz: sampleRate, numChannels }, clock),
});

class Fake extends BaseComponent implements AudioIn {
  readonly #closing = new AbortController();

  constructor(
    name: ResourceName,
    private readonly format: { codec: string; sampleRateHz: number; numChannels: number },
    private readonly clock: Clock,
  ) {
    super(name);
  }

  async *getAudio({ durationSeconds, previousNs }: AudioRequest, call?: Call): AsyncGenerator<AudioChunk> {
    const signal = AbortSignal.any([this.#closing.signal, ...call?.signal ? [call.signal] : []]);
    const { sampleRateHz, numChannels } = this.format;
    const data = new Uint8Array(Math.trunc(sampleRateHz * CHUNK_MS / 1000) * SAMPLE_BYTES * numChannels);
    // On the wire the duration is a number of 32 bits: 0.3 is a little more.
    const chunks = durationSeconds > 0 ? Math.ceil(durationSeconds * 1000 / CHUNK_MS - 1e-5) : Infinity;
    let startNs = previousNs > 0n ? previousNs : BigInt(Math.trunc(this.clock.nowMs())) * NS_PER_MS;
    for (let sequence = 0; sequence < chunks; sequence++) {
      const endNs = startNs + BigInt(CHUNK_MS) * NS_PER_MS;
      yield { data, format: this.format, startNs, endNs, sequence };
      startNs = endNs;
      if (sequence + 1 < chunks) await this.clock.sleep(CHUNK_MS, signal);
    }
  }

  getProperties(): Promise<AudioProperties> {
    const { sampleRateHz, numChannels } = this.format;
    return Promise.resolve({ supportedCodecs: [CODEC], sampleRateHz, numChannels });
  }

  override close(): Promise<void> {
    this.#closing.abort(new SvcError("unavailable", `${this.name} is closed`));
    return Promise.resolve();
  }
}
