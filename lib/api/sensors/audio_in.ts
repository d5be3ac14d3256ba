/** Audio input: a microphone, whose sound comes as a stream of chunks. */

import { AudioInService } from "../../../proto/gen/audio_in_pb.ts";
import type { Channel } from "../../wire/rpc/channel.ts";
import { service } from "../../wire/rpc/service.ts";
import type { ResourceName } from "../../resource/name.ts";
import type { Api } from "../../resource/registry.ts";
import type { Call, Component } from "../../resource/resource.ts";
import {
  type AudioFormat,
  type AudioProperties,
  fromAudioMessage,
  fromAudioProperties,
  toAudioProperties,
} from "../shared/audio.ts";
import { callOf, ComponentClient, componentHandlers, relayEndless } from "../shared/resource.ts";

/** What to record. */
export interface AudioRequest {
  /** `pcm16`, `mp3`, … as published; empty for the microphone's own. */
  readonly codec: string;
  /** 0 or less: until the caller leaves. */
  readonly durationSeconds: number;
  /** The end of the last chunk that the caller has, since the Unix epoch; 0 for sound from now on. */
  readonly previousNs: bigint;
}

/** A piece of a recording. */
export interface AudioChunk {
  /** Samples or frames in the codec that was asked for. */
  readonly data: Uint8Array;
  /** Codec, rate in Hz and number of channels of `data`. */
  readonly format?: AudioFormat;
  /** Since the Unix epoch. */
  readonly startNs: bigint;
  /** When the piece ends, in nanoseconds since 1970. */
  readonly endNs: bigint;
  /** Counts the pieces of a recording, from 0. */
  readonly sequence: number;
}

/** A microphone or another source of sound. */
export interface AudioIn extends Component {
  /** The sound as it happens, until its duration is over or the call's signal aborts. */
  getAudio(request: AudioRequest, call?: Call): AsyncIterable<AudioChunk>;
  /** Codecs, rate in Hz and channels. */
  getProperties(call?: Call): Promise<AudioProperties>;
}

class AudioInClient extends ComponentClient<typeof AudioInService> implements AudioIn {
  async *getAudio(
    { codec, durationSeconds, previousNs }: AudioRequest,
    call?: Call,
  ): AsyncGenerator<AudioChunk> {
    const request = {
      ...this.request(call),
      codec,
      durationSeconds,
      previousTimestampNanoseconds: previousNs,
    };
    for await (const { audio } of this.rpc.getAudio(request, call)) {
      if (!audio) continue;
      yield {
        data: audio.audioData,
        format: fromAudioMessage(audio.audioInfo),
        startNs: audio.startTimestampNanoseconds,
        endNs: audio.endTimestampNanoseconds,
        sequence: audio.sequence,
      };
    }
  }

  async getProperties(call?: Call): Promise<AudioProperties> {
    return fromAudioProperties(await this.rpc.getProperties(this.request(call), call));
  }
}

/** The API `rdk:component:audio_in`. */
export const AudioInApi: Api<AudioIn> = {
  name: "rdk:component:audio_in",
  desc: AudioInService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new AudioInClient(name, channel, AudioInService),
  serve: (find) =>
    service(AudioInService, {
      ...componentHandlers(find),
      getAudio: async function* (request, ctx) {
        const { codec, durationSeconds, requestId, previousTimestampNanoseconds: previousNs } = request;
        const wanted = { codec, durationSeconds, previousNs };
        const recorded = find(request.name).getAudio(wanted, callOf(request, ctx));
        const chunks = durationSeconds > 0
          ? recorded
          : relayEndless(recorded, `the pieces of sound of ${request.name}`, ctx);
        for await (const chunk of chunks) {
          yield {
            requestId,
            audio: {
              audioData: chunk.data,
              audioInfo: chunk.format,
              startTimestampNanoseconds: chunk.startNs,
              endTimestampNanoseconds: chunk.endNs,
              sequence: chunk.sequence,
            },
          };
        }
      },
      getProperties: async (request, ctx) =>
        toAudioProperties(await find(request.name).getProperties(callOf(request, ctx))),
    }),
};
