import { assert, assertEquals, assertRejects } from "@std/assert";
import { type AudioOut, AudioOutApi } from "../../lib/api/actuators/audio_out.ts";
import { SvcError } from "../../lib/base/error.ts";
import type { Contract } from "./contract.ts";

const SOUND = new Uint8Array(160);
const FORMAT = { codec: "pcm16", sampleRateHz: 8000, numChannels: 1 };

export const contract: Contract<AudioOut> = {
  api: AudioOutApi,
  cases: {
    "getProperties returns codecs, a sample rate and channels": async (audio) => {
      const { supportedCodecs, sampleRateHz, numChannels } = await audio.getProperties();
      assert(supportedCodecs.length > 0 && sampleRateHz > 0 && numChannels > 0);
    },
    "play and playStream end when the sound has been played": async (audio) => {
      await audio.play(SOUND, FORMAT);
      const parts = async function* () {
        yield SOUND;
        yield SOUND;
      };
      await audio.playStream(parts(), FORMAT);
    },
    "a codec or a format that is none is refused": async (audio) => {
      for (const format of [{ ...FORMAT, codec: "smoke" }, { ...FORMAT, sampleRateHz: 0 }]) {
        const error = await assertRejects(() => audio.play(SOUND, format), SvcError);
        assertEquals(error.code, "invalid_argument");
      }
    },
    "an aborted play ends": async (audio) => {
      const stop = new AbortController();
      const playing = audio.play(new Uint8Array(1_000_000), FORMAT, { signal: stop.signal });
      const ended = assertRejects(() => playing);
      stop.abort(new SvcError("canceled", "gone"));
      await ended;
    },
  },
};
