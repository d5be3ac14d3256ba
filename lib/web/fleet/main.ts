/** The fleet's page: starts the application in the page's only element. */

import "../shared/styles.css";
import { mount } from "svelte";
import App from "./app.svelte";

mount(App, { target: document.getElementById("page")! });
