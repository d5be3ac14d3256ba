/** Audio output: a loudspeaker, which plays a sound, or a stream of its parts. */

import { AudioOutService } from "../../../proto/gen/audio_out_pb.ts";
import { SvcError } from "../../base/error.ts";
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
import { callOf, ComponentClient, componentHandlers } from "../shared/resource.ts";

/** A loudspeaker or another sink of sound. */
export interface AudioOut extends Component {
  /** Resolves when the sound has been played. Without a format, the data itself tells it. */
  play(data: Uint8Array, format: AudioFormat | undefined, call?: Call): Promise<void>;
  /** Plays each part after the one before; resolves when the last one has been played. */
  playStream(
    parts: AsyncIterable<Uint8Array>,
    format: AudioFormat | undefined,
    call?: Call,
  ): Promise<void>;
  /** Codecs, rate in Hz and channels. */
  getProperties(call?: Call): Promise<AudioProperties>;
}

class AudioOutClient extends ComponentClient<typeof AudioOutService> implements AudioOut {
  async play(audioData: Uint8Array, audioInfo: AudioFormat | undefined, call?: Call): Promise<void> {
    await this.rpc.play({ ...this.request(call), audioData, audioInfo }, call);
  }

  async playStream(
    parts: AsyncIterable<Uint8Array>,
    audioInfo: AudioFormat | undefined,
    call?: Call,
  ): Promise<void> {
    const init = { ...this.request(call), audioInfo };
    const requests = async function* () {
      yield { payload: { case: "init" as const, value: init } };
      for await (const audioData of parts) {
        yield { payload: { case: "audioChunk" as const, value: { audioData } } };
      }
    };
    await this.rpc.playStream(requests(), call);
  }

  async getProperties(call?: Call): Promise<AudioProperties> {
    return fromAudioProperties(await this.rpc.getProperties(this.request(call), call));
  }
}

/** The API `rdk:component:audio_out`. */
export const AudioOutApi: Api<AudioOut> = {
  name: "rdk:component:audio_out",
  desc: AudioOutService,
  namedBy: ["name"],
  monitored: "none",
  joints: "none",
  captured: "none",
  client: (name: ResourceName, channel: Channel) => new AudioOutClient(name, channel, AudioOutService),
  serve: (find) =>
    service(AudioOutService, {
      ...componentHandlers(find),
      play: async (request, ctx) => {
        const format = fromAudioMessage(request.audioInfo);
        await find(request.name).play(request.audioData, format, callOf(request, ctx));
        return {};
      },
      playStream: async (requests, ctx) => {
        const messages = requests[Symbol.asyncIterator]();
        const first = (await messages.next()).value?.payload;
        if (first?.case !== "init") {
          throw new SvcError(
            "invalid_argument",
            "playing a stream: the first message is no init, wanted one",
          );
        }

        const parts = async function* () {
          for (let next = await messages.next(); !next.done; next = await messages.next()) {
            const { payload } = next.value;
            if (payload.case === "audioChunk") yield payload.value.audioData;
          }
        };
        const { name, audioInfo } = first.value;
        await find(name).playStream(parts(), fromAudioMessage(audioInfo), callOf(first.value, ctx));

        return {};
      },
      getProperties: async (request, ctx) =>
        toAudioProperties(await find(request.name).getProperties(callOf(request, ctx))),
    }),
};
