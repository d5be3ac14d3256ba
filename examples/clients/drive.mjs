// Turns a motor, reads its encoder and saves a picture:
//
//     npm install @viamrobotics/sdk
//     node drive.mjs http://localhost:8080
//
// With a machine that has keys, add `credentials: { type: "api-key", authEntity: id, payload: key }` to the options.

import { writeFile } from "node:fs/promises";
import { CameraClient, EncoderClient, MotorClient, RobotClient } from "@viamrobotics/sdk";

const [host = "http://localhost:8080", picture = "picture.jpg"] = process.argv.slice(2);

const robot = new RobotClient();
await robot.dial({ host, noReconnect: true });
try {
  const motor = new MotorClient(robot, "motor1");
  const encoder = new EncoderClient(robot, "encoder1");

  const [before] = await encoder.getPosition();
  await motor.goFor(120, 2); // revolutions a minute, revolutions
  const [after] = await encoder.getPosition();
  console.log(`the encoder counted ${after - before} ticks`);

  const { images: [{ image, mimeType }] } = await new CameraClient(robot, "camera1").getImages();
  await writeFile(picture, image);
  console.log(`${picture}: ${image.length} bytes of ${mimeType}`);
} finally {
  await robot.disconnect();
}
process.exit(); // the library leaves a timer running
