//! The thread on which callbacks go on while the caller's runtime sleeps.

/// Runs futures on a thread of its own, so that callbacks go on while the caller's runtime sleeps.
pub(crate) struct Background {
    pub(crate) handle: tokio::runtime::Handle,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Background {
    pub(crate) fn start() -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::Builder::new().name("plugins".to_owned()).spawn(move || {
            // Ends when the sender says so or is dropped.
            drop(runtime.block_on(stopped));
        })?;
        Ok(Self { handle, stop: Some(stop) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // The thread may have ended.
            let _ = stop.send(());
        }
    }
}
