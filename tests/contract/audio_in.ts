import { assert, assertEquals } from "@std/assert";
import { type AudioChunk, type AudioIn, AudioInApi } from "../../lib/api/sensors/audio_in.ts";
import type { Contract } from "./contract.ts";

export const contract: Contract<AudioIn> = {
  api: AudioInApi,
  cases: {
    "getProperties returns codecs, a sample rate and channels": async (audio) => {
      const { supportedCodecs, sampleRateHz, numChannels } = await audio.getProperties();
      assert(supportedCodecs.length > 0 && sampleRateHz > 0 && numChannels > 0);
    },
    "getAudio returns chunks that follow each other, for its duration": async (audio) => {
      const chunks: AudioChunk[] = [];
      const request = { codec: "pcm16", durationSeconds: 0.25, previousNs: 5_000_000_000n };
      for await (const chunk of audio.getAudio(request)) chunks.push(chunk);
      assertEquals(chunks.map(({ sequence }) => sequence), chunks.map((_, index) => index));
      assertEquals(chunks[0].startNs, 5_000_000_000n);
      for (const [index, { startNs }] of chunks.entries()) {
        if (index > 0) assertEquals(startNs, chunks[index - 1].endNs);
      }
      assert(chunks.at(-1)!.endNs - chunks[0].startNs >= 250_000_000n);
    },
    "getAudio without a duration ends when its call is aborted": async (audio) => {
      const stop = new AbortController();
      const follow = async () => {
        const request = { codec: "", durationSeconds: 0, previousNs: 0n };
        for await (const { data } of audio.getAudio(request, { signal: stop.signal })) {
          assert(data.length > 0);
          stop.abort();
        }
      };
      await follow().catch(() => {});
      assert(stop.signal.aborted);
    },
  },
};
