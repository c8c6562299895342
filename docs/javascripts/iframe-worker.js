// Search runs in a worker, and browsers refuse workers to pages from the disk. There, a hidden
// frame takes the worker's place: it runs the same script and passes messages both ways.
(function () {
  "use strict";
  if (location.protocol !== "file:") return;

  // Runs inside the frame. What the script posts goes to the page; scripts load one by one.
  function prelude() {
    window.postMessage = function (data) {
      parent.dispatchEvent(new CustomEvent("frame-worker", { detail: { from: window, data: data } }));
    };
    window.importScripts = function () {
      return Array.from(arguments).reduce(function (done, url) {
        return done.then(function () {
          return new Promise(function (loaded) {
            const script = document.createElement("script");
            script.src = url;
            script.onload = loaded;
            document.body.appendChild(script);
          });
        });
      }, Promise.resolve());
    };
  }

  class FrameWorker extends EventTarget {
    constructor(url) {
      super();
      this.onmessage = null;
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inside = this.frame.contentWindow;
      this.receive = (event) => {
        if (event.detail.from !== inside) return;
        const message = new MessageEvent("message", { data: event.detail.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      window.addEventListener("frame-worker", this.receive);
      inside.document.open();
      inside.document.write(
        `<html><body><script>(${prelude})()<\/script><script src="${url}"><\/script></body></html>`
      );
      inside.document.close();
      this.ready = new Promise((resolve) => { inside.onload = resolve; });
    }

    postMessage(data) {
      this.ready.then(() => {
        const inside = this.frame.contentWindow;
        inside.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }));
      });
    }

    terminate() {
      window.removeEventListener("frame-worker", this.receive);
      this.frame.remove();
    }
  }

  window.Worker = FrameWorker;
})();
