/** A machine's own page, reached through its control plane: `machine?part=ID`. */

import "../shared/styles.css";
import { mount } from "svelte";
import ThroughCloud from "./machine/through_cloud.svelte";

mount(ThroughCloud, { target: document.getElementById("page")! });
