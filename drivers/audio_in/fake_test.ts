import { assertEquals } from "@std/assert";
import { construct, problemsOf } from "../../tests/support/construct.ts";
import { FakeClock } from "../../tests/support/fake_clock.ts";
import { FakeAudioIn } from "./fake.ts";

Deno.test("fake microphone: chunks of 100 ms of silence, at their time, for the duration", async () => {
  const clock = new FakeClock();
  const audio = await construct(FakeAudioIn, { sample_rate: 8000, num_channels: 2 }, { clock });
  const heard: number[] = [];
  const reading = (async () => {
    for await (
      const { data, startNs } of audio.getAudio({ codec: "", durationSeconds: 0.25, previousNs: 0n })
    ) {
      assertEquals([data.length, data.every((byte) => byte === 0)], [8000 / 10 * 2 * 2, true]);
      heard.push(Number(startNs / 1_000_000n) - 1_700_000_000_000);
    }
  })();
  await clock.advance(150);
  assertEquals(heard, [0, 100]);
  await clock.advance(100);
  await reading;
  assertEquals([heard, clock.pending], [[0, 100, 200], 0]);
});

Deno.test("fake microphone: the defaults are 44100 samples a second on one channel", async () => {
  const audio = await construct(FakeAudioIn, { sample_rate: 0 });
  assertEquals(await audio.getProperties(), {
    supportedCodecs: ["pcm16"],
    sampleRateHz: 44100,
    numChannels: 1,
  });
  assertEquals(problemsOf(FakeAudioIn, { sample_rate: -1, num_channels: 1e9 }).length, 2);
});
